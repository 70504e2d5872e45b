//! SPIR-V for Vulkan.
