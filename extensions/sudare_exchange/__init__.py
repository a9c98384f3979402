"""Other programs: SDMX, CSVW, DCAT, the registry of deployments, OpenLineage and OpenTelemetry."""
