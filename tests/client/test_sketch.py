import torch

from dynamite_fl.client.sketch import sketch, sketch_size


def test_sketches_are_linear_and_keep_inner_products() -> None:
    """The error of an inner product has mean 0 and deviation about |x| |y| / sqrt(m)."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 5000, generator=generator, dtype=torch.float64)
    y = torch.randn(400, 5000, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(sketch(x) + 2 * sketch(y), sketch(x + 2 * y))
    off = (sketch(x) * sketch(y)).sum(1) - (x * y).sum(1)
    relative = off / (x.norm(dim=1) * y.norm(dim=1)) * sketch_size(5000) ** 0.5
    assert abs(float(relative.mean())) < 4 / 400**0.5
    assert 0.8 < float(relative.std()) < 1.2


def test_a_short_vector_is_not_shortened() -> None:
    x = torch.tensor([3.0, -1.0, 2.0])
    assert sketch(x).abs().tolist() == [3.0, 1.0, 2.0]
