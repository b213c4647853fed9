"""Plays environments with a model that is prompted and not trained, and counts what came of it."""
