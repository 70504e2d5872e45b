//! Device limits by their names in the Vulkan specification, as far as compute kernels have a use for them.

use ash::vk;

/// What a device states of itself, beyond features.
#[derive(Clone, Copy, Default)]
pub(super) struct Properties {
    pub base: vk::PhysicalDeviceProperties,
    pub subgroup_size: u32,
    /// Equal to `subgroup_size` where kernels cannot ask for another.
    pub subgroup_range: (u32, u32),
    pub max_allocation: u64,
    pub max_buffer: u64,
    pub driver: Option<vk::PhysicalDeviceDriverProperties<'static>>,
    pub float_controls: vk::PhysicalDeviceFloatControlsProperties<'static>,
    pub subgroup_operations: vk::SubgroupFeatureFlags,
}

impl Properties {
    pub fn of(instance: &ash::Instance, device: vk::PhysicalDevice) -> Self {
        // Safety: a handle that the instance listed.
        let base = unsafe { instance.get_physical_device_properties(device) };
        let mut p = Properties { base, max_allocation: 1 << 30, max_buffer: u64::MAX, ..Self::default() };
        if base.api_version < vk::API_VERSION_1_2 {
            return p;
        }
        let mut eleven = vk::PhysicalDeviceVulkan11Properties::default();
        let mut driver = vk::PhysicalDeviceDriverProperties::default();
        let mut thirteen = vk::PhysicalDeviceVulkan13Properties::default();
        let mut floats = vk::PhysicalDeviceFloatControlsProperties::default();
        let mut all = vk::PhysicalDeviceProperties2::default()
            .push_next(&mut eleven)
            .push_next(&mut driver)
            .push_next(&mut floats);
        if base.api_version >= vk::API_VERSION_1_3 {
            all = all.push_next(&mut thirteen);
        }
        // Safety: as above, and the chain holds structures that this version knows.
        unsafe { instance.get_physical_device_properties2(device, &mut all) };
        p.subgroup_size = eleven.subgroup_size;
        p.subgroup_range = (eleven.subgroup_size, eleven.subgroup_size);
        p.max_allocation = eleven.max_memory_allocation_size;
        driver.p_next = std::ptr::null_mut();
        p.driver = Some(driver);
        floats.p_next = std::ptr::null_mut();
        p.float_controls = floats;
        p.subgroup_operations = eleven.subgroup_supported_operations;
        if base.api_version >= vk::API_VERSION_1_3 {
            p.max_buffer = thirteen.max_buffer_size;
            if thirteen.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE) {
                p.subgroup_range = (thirteen.min_subgroup_size, thirteen.max_subgroup_size);
            }
        }
        p
    }

    /// The value of a limit; none if this program does not know its name.
    pub fn limit(&self, name: &str) -> Option<u64> {
        let (l, f) = (&self.base.limits, &self.float_controls);
        Some(match name {
            "maxStorageBufferRange" => l.max_storage_buffer_range.into(),
            "maxPushConstantsSize" => l.max_push_constants_size.into(),
            "maxMemoryAllocationCount" => l.max_memory_allocation_count.into(),
            "maxBoundDescriptorSets" => l.max_bound_descriptor_sets.into(),
            "maxPerStageDescriptorStorageBuffers" => l.max_per_stage_descriptor_storage_buffers.into(),
            "maxDescriptorSetStorageBuffers" => l.max_descriptor_set_storage_buffers.into(),
            "maxPerStageResources" => l.max_per_stage_resources.into(),
            "maxComputeSharedMemorySize" => l.max_compute_shared_memory_size.into(),
            "maxComputeWorkGroupInvocations" => l.max_compute_work_group_invocations.into(),
            "maxComputeWorkGroupCount[0]" => l.max_compute_work_group_count[0].into(),
            "maxComputeWorkGroupCount[1]" => l.max_compute_work_group_count[1].into(),
            "maxComputeWorkGroupCount[2]" => l.max_compute_work_group_count[2].into(),
            "maxComputeWorkGroupSize[0]" => l.max_compute_work_group_size[0].into(),
            "maxComputeWorkGroupSize[1]" => l.max_compute_work_group_size[1].into(),
            "maxComputeWorkGroupSize[2]" => l.max_compute_work_group_size[2].into(),
            "minStorageBufferOffsetAlignment" => l.min_storage_buffer_offset_alignment,
            "maxMemoryAllocationSize" => self.max_allocation,
            "maxBufferSize" => self.max_buffer,
            "subgroupSize" => self.subgroup_size.into(),
            "subgroupSupportedOperations" => self.subgroup_operations.as_raw().into(),
            "shaderSignedZeroInfNanPreserveFloat16" => f.shader_signed_zero_inf_nan_preserve_float16.into(),
            "shaderSignedZeroInfNanPreserveFloat32" => f.shader_signed_zero_inf_nan_preserve_float32.into(),
            "shaderSignedZeroInfNanPreserveFloat64" => f.shader_signed_zero_inf_nan_preserve_float64.into(),
            "shaderDenormPreserveFloat16" => f.shader_denorm_preserve_float16.into(),
            "shaderDenormPreserveFloat32" => f.shader_denorm_preserve_float32.into(),
            "shaderDenormPreserveFloat64" => f.shader_denorm_preserve_float64.into(),
            "shaderRoundingModeRTEFloat16" => f.shader_rounding_mode_rte_float16.into(),
            "shaderRoundingModeRTEFloat32" => f.shader_rounding_mode_rte_float32.into(),
            "shaderRoundingModeRTEFloat64" => f.shader_rounding_mode_rte_float64.into(),
            _ => return None,
        })
    }

    /// Whether kernels can run with subgroups of exactly this size.
    pub fn has_subgroups_of(&self, size: u64) -> bool {
        let (least, most) = self.subgroup_range;
        size == u64::from(self.subgroup_size)
            || size.is_power_of_two() && (u64::from(least)..=u64::from(most)).contains(&size)
    }

    /// Why the limit is not satisfied, if it is not.
    pub fn unmet(&self, name: &str, required: u64) -> Option<String> {
        let Some(has) = self.limit(name) else {
            return Some(format!("the limit `{name}` is unknown to this runtime"));
        };
        if name == "subgroupSize" {
            return (!self.has_subgroups_of(required))
                .then(|| format!("subgroups have {has} invocations, not {required}"));
        }
        if name == "subgroupSupportedOperations" {
            let missing = required & !has;
            return (missing != 0)
                .then(|| format!("subgroups lack the operations VkSubgroupFeatureFlagBits {missing:#x}"));
        }
        let (holds, bound) =
            if name.starts_with("min") { (has <= required, "at most") } else { (has >= required, "at least") };
        (!holds).then(|| format!("{name} is {has}, and must be {bound} {required}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_least_values_but_for_alignments_and_subgroups() {
        let mut p = Properties { subgroup_size: 32, subgroup_range: (8, 32), ..Properties::default() };
        p.base.limits.max_push_constants_size = 128;
        p.base.limits.min_storage_buffer_offset_alignment = 64;
        assert_eq!(p.unmet("maxPushConstantsSize", 128), None);
        assert_eq!(
            p.unmet("maxPushConstantsSize", 256).unwrap(),
            "maxPushConstantsSize is 128, and must be at least 256"
        );
        assert_eq!(p.unmet("minStorageBufferOffsetAlignment", 64), None);
        assert!(p.unmet("minStorageBufferOffsetAlignment", 16).is_some());
        assert_eq!((p.unmet("subgroupSize", 16), p.unmet("subgroupSize", 32)), (None, None));
        assert_eq!(p.unmet("subgroupSize", 64).unwrap(), "subgroups have 32 invocations, not 64");
        p.subgroup_operations = vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::VOTE;
        assert_eq!(p.unmet("subgroupSupportedOperations", 3), None);
        assert!(p.unmet("subgroupSupportedOperations", 0x11).unwrap().ends_with("0x10"));
        assert!(p.unmet("shaderSignedZeroInfNanPreserveFloat32", 1).is_some());
        p.float_controls.shader_signed_zero_inf_nan_preserve_float32 = vk::TRUE;
        assert_eq!(p.unmet("shaderSignedZeroInfNanPreserveFloat32", 1), None);
        assert!(p.unmet("maxFlavour", 1).unwrap().contains("unknown"));
    }
}
