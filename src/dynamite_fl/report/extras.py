"""What is not installed unless one asks for it."""


class MissingExtra(ValueError):  # noqa: N818  it says what is the matter
    """An extra of this package that is needed is not installed.

    Example:
        >>> print(MissingExtra("a report", "report"))
        a report needs more than is installed: pip install 'dynamite-fl[report]'
    """

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs more than is installed: pip install 'dynamite-fl[{extra}]'")
