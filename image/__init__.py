"""Makes the container image: what runs inside its build, and what starts that build.

`rootfs`, `sbom` and `trim` are run by the Dockerfile, each as a script beside the parts it works
on; the rest is `python -m image`, which `make image` calls. Nothing of this is in the image.
"""
