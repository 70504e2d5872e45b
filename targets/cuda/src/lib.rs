//! PTX for CUDA.
