"""Numbers as text, the same in terminals, reports and tables."""


def percent(share: float, decimals: int = 1) -> str:
    """Return a share as a percentage.

    Example:
        >>> percent(0.8125), percent(0.5, decimals=0)
        ('81.2%', '50%')
    """
    return f"{share:.{decimals}%}"


def number(value: float, decimals: int | None = None) -> str:
    """Return a number with separated thousands.

    Args:
        value: The number.
        decimals: The digits after the point. Default: none from 100 on, one below.

    Example:
        >>> number(1234.5), number(9.96), number(3, decimals=0)
        ('1,234', '10.0', '3')
    """
    return f"{value:,.{_decimals(value) if decimals is None else decimals}f}"


def percent_spread(mean: float, deviation: float | None) -> str:
    """Return a mean share and its standard deviation in percentage points, if there is one.

    Example:
        >>> percent_spread(0.81, 0.012), percent_spread(0.81, None)
        ('81.0% ± 1.2', '81.0%')
    """
    return percent(mean) if deviation is None else f"{percent(mean)} ± {points(deviation)}"


def number_spread(mean: float, deviation: float | None, decimals: int | None = None) -> str:
    """Return a mean and its standard deviation, if there is one, with equally many decimals.

    Example:
        >>> number_spread(250.4, 12.34), number_spread(9.5, None)
        ('250 ± 12', '9.5')
    """
    if decimals is None:
        decimals = _decimals(mean)
    text = number(mean, decimals)
    return text if deviation is None else f"{text} ± {number(deviation, decimals)}"


def points(share: float) -> str:
    """Return a difference of shares in percentage points.

    Example:
        >>> points(0.0123)
        '1.2'
    """
    return f"{100 * share:.1f}"


def count(number_of: int, noun: str) -> str:
    """Return a number of things.

    Example:
        >>> count(1, "device"), count(2000, "device")
        ('1 device', '2,000 devices')
    """
    return f"{number_of:,} {noun}{'' if number_of == 1 else 's'}"


def byte_size(size: float) -> str:
    """Return a number of bytes in the unit that suits it.

    Example:
        >>> byte_size(640), byte_size(2_340_000)
        ('640 B', '2.34 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.3g} TB"


def _decimals(value: float) -> int:
    return 0 if value >= 100 else 1
