//! HSACO for ROCm.
