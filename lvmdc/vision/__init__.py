"""Images: data sets, proposals, features, detection and its metrics."""
