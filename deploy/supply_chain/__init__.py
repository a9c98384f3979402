"""What a downloader gets beside the wheel: a bill of materials, a statement of how it was built, and checksums."""
