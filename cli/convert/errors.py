"""What keeps manifests from being converted: a sentence for the user, and exit status 2."""


class ManifestError(Exception):
    """A file that cannot be read, or is no YAML of objects."""
