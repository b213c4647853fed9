"""What happened in a run, as one HTML file: curves, and the credit of every step."""
