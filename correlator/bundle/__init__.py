"""The evidence bundle: what a vendor's desk needs to replace a part. ``build.write_bundle`` makes one."""
