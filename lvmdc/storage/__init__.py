"""Files: atomic writes and careful reads, arrays in npz files, and arrays that are mapped from disk."""
