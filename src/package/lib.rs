//! Archives and OCI layouts from artifacts.
