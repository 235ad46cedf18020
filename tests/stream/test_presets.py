import pytest

from dynamite_fl.stream.presets import PRESETS, preset

TABLE = {  # Table II: initial, buffer_size, size, and when samples arrive
    ("smooth-i", "mnist"): (5000, 10000, 5000, ("every", 100)),
    ("smooth-c", "emnist"): (5000, 10000, 5000, ("every", 100)),
    ("burst", "mnist"): (10000, 25000, 50000, ("at", 500)),
    ("random", "emnist-balanced"): (10000, 10000, 40000, ("times", 5)),
    ("smooth-i", "cifar10"): (5000, 10000, 3000, ("every", 100)),
    ("smooth-c", "cifar10"): (5000, 10000, 3000, ("every", 100)),
    ("burst", "cifar10"): (25000, 25000, 25000, ("at", 1000)),
    ("random", "cifar10"): (10000, 10000, 40000, ("times", 5)),
}


@pytest.mark.parametrize(("name", "dataset"), TABLE)
def test_presets_are_those_of_the_paper(name: str, dataset: str) -> None:
    initial, buffer, size, (key, when) = TABLE[name, dataset]
    settings = preset(name, dataset)
    assert (settings["initial"], settings["buffer_size"], settings["size"]) == (
        initial,
        buffer,
        size,
    )
    assert settings[key] == when
    assert settings["order"] == ("balanced" if name == "smooth-i" else "continuous")
    assert settings["max_samples"] == (50000 if dataset == "cifar10" else 60000)


@pytest.mark.parametrize("name", PRESETS)
def test_a_scale_applies_to_samples_and_rounds(name: str) -> None:
    whole, small = preset(name, "mnist"), preset(name, "mnist", scale=0.02)
    for key in ("initial", "size", "buffer_size", "every", "at", "max_samples"):
        if key in whole:
            assert small[key] == whole[key] // 50
    assert small.get("times") == whole.get("times")


def test_an_unknown_preset_or_scale_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of smooth-i, smooth-c, burst, random"):
        preset("xyz", "mnist")
    with pytest.raises(ValueError, match="did you mean 'smooth-c'"):
        preset("smooth_c", "mnist")
    for scale in (0, 2, "x"):
        with pytest.raises(ValueError, match=r"stream\.scale is .* above 0, at most 1"):
            preset("burst", "mnist", scale=scale)  # type: ignore[arg-type]
