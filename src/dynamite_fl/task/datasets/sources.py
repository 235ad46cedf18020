"""The names, folders and public addresses of the files of each dataset.

The checksums are those of the publishers or of torchvision.
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
_MNIST_MD5 = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
_FASHION_MD5 = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)
_EMNIST_ARCHIVE = Source(
    file="emnist-gzip.zip",
    urls=(
        "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
        "https://www.itl.nist.gov/iaui/vip/cs_links/EMNIST/gzip.zip",
    ),
    md5="58c8d27c78d21e728a6bc7b3cc06412e",
    members=("-images-idx3-ubyte.gz", "-labels-idx1-ubyte.gz"),
)
_CIFAR_BATCHES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")
_CIFAR_ARCHIVE = Source(
    file="cifar-10-python.tar.gz",
    urls=("https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",),
    md5="c58f30108f718f92721af3b95e74349a",
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
        Source(f"{file}.gz", tuple(f"{mirror}{file}.gz" for mirror in mirrors), md5)
        for file, md5 in zip(_MNIST_FILES, checksums, strict=True)
    )


MNIST = Files(
    forms=(_MNIST_FILES,),
    layouts=("mnist", "MNIST/raw", ""),
    cached_in="mnist",
    sources=_mirrored(_MNIST_MIRRORS, _MNIST_MD5),
)
FASHION_MNIST = Files(
    forms=(_MNIST_FILES,),
    layouts=("fashion-mnist", "FashionMNIST/raw", ""),
    cached_in="fashion-mnist",
    sources=_mirrored(_FASHION_MIRRORS, _FASHION_MD5),
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
