"""What can go wrong with the image, each said so that a person can act on it.

ImageError
├── MissingError              a program that has to be installed, or an image that is not built
└── BuildError                a builder or a bootstrap that has failed; it has said why
"""


class ImageError(Exception):
    """The image cannot be had."""


class MissingError(ImageError):
    """Something has to be installed or built first; the message says how."""


class BuildError(ImageError):
    """A program that builds has failed."""
