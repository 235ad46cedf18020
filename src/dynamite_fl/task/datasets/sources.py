"""The names, folders and public addresses of the files of each dataset.

The checksums are SHA-256. Those of MNIST were computed from the published files. Those of the
others are of files whose MD5 checksum is that of the publishers or of torchvision.
"""

from dataclasses import dataclass

from dynamite_fl.task.datasets.download import Source

_MNIST_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_FASHION_MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
_MNIST_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
_MNIST_SHA256 = (
    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
)
_FASHION_SHA256 = (
    "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
)
_EMNIST_ARCHIVE = Source(
    file="emnist-gzip.zip",
    urls=(
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
    ),
    sha256="fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
    members=("-images-idx3-ubyte.gz", "-labels-idx1-ubyte.gz"),
)
_CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_CIFAR_ARCHIVE = Source(
    file="cifar-10-python.tar.gz",
    urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    members=_CIFAR_BATCHES,
)

# The number of classes of each split of EMNIST. "reduced" is not published, so that it cannot be
# downloaded.
EMNIST_SPLITS = {
    "balanced": 47,
    "byclass": 62,
    "bymerge": 47,
    "digits": 10,
    "letters": 26,
    "mnist": 10,
    "reduced": 47,
}


@dataclass(frozen=True)
class Files:
    """The files of a dataset.

    Attributes:
        forms: The sets of file names under which the dataset is published. One whole set is
            enough.
        layouts: The subfolders of a data folder that may hold the files.
        cached_in: The subfolder of the cache folder for downloads.
        sources: The public files to download; none if the dataset is not public.
    """

    forms: tuple[tuple[str, ...], ...]
    layouts: tuple[str, ...]
    cached_in: str
    sources: tuple[Source, ...]


def _mirrored(mirrors: tuple[str, ...], checksums: tuple[str, ...]) -> tuple[Source, ...]:
    return tuple(
        Source(f"{file}.gz", tuple(f"{mirror}{file}.gz" for mirror in mirrors), sha256)
        for file, sha256 in zip(_MNIST_FILES, checksums, strict=True)
    )


MNIST = Files(
    forms=(_MNIST_FILES,),
    layouts=("mnist", "MNIST/raw", ""),
    cached_in="mnist",
    sources=_mirrored(_MNIST_MIRRORS, _MNIST_SHA256),
)
FASHION_MNIST = Files(
    forms=(_MNIST_FILES,),
    layouts=("fashion-mnist", "FashionMNIST/raw", ""),
    cached_in="fashion-mnist",
    sources=_mirrored(_FASHION_MIRRORS, _FASHION_SHA256),
)
CIFAR10 = Files(
    forms=(_CIFAR_BATCHES, tuple(f"{batch}.bin" for batch in _CIFAR_BATCHES)),
    layouts=(
        "cifar-10-batches-py",
        "cifar10/cifar-10-batches-py",
        "cifar-10-batches-bin",
        "cifar10/cifar-10-batches-bin",
        "cifar10",
        "",
    ),
    cached_in="cifar-10-batches-py",
    sources=(_CIFAR_ARCHIVE,),
)


def emnist_files(split: str) -> Files:
    """Return the files of one split of EMNIST."""
    parts = ("train-images-idx3", "train-labels-idx1", "test-images-idx3", "test-labels-idx1")
    return Files(
        forms=(tuple(f"emnist-{split}-{part}-ubyte" for part in parts),),
        layouts=("emnist", "EMNIST/raw", "gzip", "emnist/gzip", "EMNIST/raw/gzip", ""),
        cached_in="emnist",
        sources=() if split == "reduced" else (_EMNIST_ARCHIVE,),
    )
