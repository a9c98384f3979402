"""Pictures on pages: bars, maps, contact sheets, as SVG."""
