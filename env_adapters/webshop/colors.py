"""WebShop compares colors by their first known name: "dark navy blue" and "light blue" are both "blue"."""

from __future__ import annotations

from rllib_gigpo.env_adapters.webshop.goals import GoalOption

# The order decides which name of several counts.
_COLOR_NAMES = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy camel camo
caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream crystal
dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass gray green grey heather indigo ivory
ivy khaki lavender lemon leopard light lilac lime magenta maroon mauve merlot midnight mint mocha multicolor
mushroom mustard natural navy nude olive orange peach pewter pink plum purple rainbow red rose royal rust sand
sapphire seashell silver skull slate steel stone stonewash sunflower tan taupe teal tiger turquoise violet walnut
wheat white wine yellow
"""
COLORS = tuple(_COLOR_NAMES.split())


def compared_value(value: str) -> str:
    """The first color of the list that occurs anywhere in `value`, also within a word; without one, `value` itself."""
    return next((color for color in COLORS if color in value), value)


def compared_option(option: GoalOption) -> str:
    """What a goal's option is compared as.

    An option with a name is compared with it, and only a value that is a color as it stands is one: the published code
    looks for colors in the pair of name and value.
    """
    if option.name is None:
        return compared_value(option.value)
    whole = next((color for color in COLORS if color in option), None)
    return whole or f"{option.name} {option.value}"
