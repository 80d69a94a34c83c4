"""What the user's points are called: of tables rows, of images images."""


def point_word(images: bool) -> str:
    """What one of the user's points is called: only tables have rows."""
    return "image" if images else "row"


def said_count(count: int, images: bool) -> str:
    """So many of the user's points, in words.

    >>> said_count(1, images=False), said_count(1200, images=True)
    ('1 row', '1,200 images')
    """
    return f"{count:,} {point_word(images)}{'' if count == 1 else 's'}"
