"""Numbers as text, the same in terminals, reports and tables."""

import math
import re

# Words in the names of metrics that are shares, from 0 to 1.
_SHARES = {"accuracy", "acc", "f1", "fbeta", "auc", "auroc", "auprc", "precision", "recall"}
_SHARES |= {"specificity", "sensitivity", "iou", "jaccard", "dice"}
# Words in the names of metrics that are written in capitals.
_ACRONYMS = {"auc", "auprc", "auroc", "f1", "mae", "mape", "mcc", "mse", "r2", "rmse"}
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")


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


def is_share(metric_name: str) -> bool:
    """Return whether a metric's name says that it is a share from 0 to 1, shown in per cent.

    Example:
        >>> [is_share(name) for name in ("accuracy", "macro_f1", "BinaryAUROC", "rmse")]
        [True, True, True, False]
    """
    return any(word.lower() in _SHARES for word in _WORD.findall(metric_name))


def metric_label(metric_name: str) -> str:
    """Return the name of a metric for people.

    Example:
        >>> metric_label("binary_accuracy"), metric_label("rmse"), metric_label("BinaryF1Score")
        ('binary accuracy', 'RMSE', 'BinaryF1Score')
    """
    words = metric_name.split("_")
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words)


def metric_title(metric_name: str) -> str:
    """Return the name of a metric as the beginning of a title.

    Example:
        >>> metric_title("accuracy"), metric_title("rmse")
        ('Accuracy', 'RMSE')
    """
    label = metric_label(metric_name)
    return label[:1].upper() + label[1:]


def metric_value(metric_name: str, value: float | None) -> str:
    """Return the value of a metric: shares in per cent, others with four significant digits.

    Histories have None for NaN and infinity.

    Example:
        >>> metric_value("accuracy", 0.8125), metric_value("rmse", 3.14159)
        ('81.2%', '3.142')
    """
    if value is None or not math.isfinite(value):
        return "not a number"
    return percent(value) if is_share(metric_name) else _significant(value, 4)


def metric_spread(metric_name: str, mean: float, deviation: float | None) -> str:
    """Return the mean of a metric and its standard deviation, if there is one.

    Example:
        >>> metric_spread("accuracy", 0.81, 0.012), metric_spread("rmse", 3.14159, 0.0123)
        ('81.0% ± 1.2', '3.142 ± 0.012')
    """
    if is_share(metric_name):
        return percent_spread(mean, deviation)
    text = _significant(mean, 4)
    return text if deviation is None else f"{text} ± {_significant(deviation, 2)}"


def metric_difference(metric_name: str, difference: float, deviation: float | None = None) -> str:
    """Return a difference of two values of a metric, with its standard deviation if there is one.

    Example:
        >>> metric_difference("accuracy", 0.0312, 0.004), metric_difference("rmse", 0.0312)
        ('3.1 ± 0.4 points', '0.0312')
    """
    if not is_share(metric_name):
        return metric_spread(metric_name, difference, deviation)
    spread = "" if deviation is None else f" ± {points(deviation)}"
    return f"{points(difference)}{spread} points"


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


def _significant(value: float, digits: int) -> str:
    """Return a number with so many significant digits; large numbers have all their digits."""
    if 10**digits <= abs(value) < 10**15:
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"
