//! Device features by their names in the Vulkan specification: which a device has, and the chain that enables a set of
//! them when it is opened.
//!
//! Every `VkPhysicalDevice...Features` structure is a header and a row of 32-bit booleans, so one shape serves them all
//! and the table below only has their names, in the order of the specification. A feature that is not asked for is
//! never enabled: a kernel that needs an undeclared one must fail here, not on the next driver.

use ash::vk;
use std::{collections::BTreeSet, ffi::c_void, ptr::null_mut};

/// What a device must offer before its driver knows the structure.
#[derive(Clone, Copy)]
enum Since {
    Version(u32, u32),
    Extension(&'static str),
}

struct Group {
    tag: vk::StructureType,
    since: Since,
    /// Separated by white space.
    names: &'static str,
}

/// More than the largest structure has.
const MOST: usize = 64;

#[rustfmt::skip]
static GROUPS: &[Group] = &[
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_FEATURES_2,
        since: Since::Version(1, 1),
        names: "
            robustBufferAccess fullDrawIndexUint32 imageCubeArray independentBlend geometryShader
            tessellationShader sampleRateShading dualSrcBlend logicOp multiDrawIndirect
            drawIndirectFirstInstance depthClamp depthBiasClamp fillModeNonSolid depthBounds wideLines
            largePoints alphaToOne multiViewport samplerAnisotropy textureCompressionEtc2
            textureCompressionAstcLdr textureCompressionBc occlusionQueryPrecise pipelineStatisticsQuery
            vertexPipelineStoresAndAtomics fragmentStoresAndAtomics shaderTessellationAndGeometryPointSize
            shaderImageGatherExtended shaderStorageImageExtendedFormats shaderStorageImageMultisample
            shaderStorageImageReadWithoutFormat shaderStorageImageWriteWithoutFormat
            shaderUniformBufferArrayDynamicIndexing shaderSampledImageArrayDynamicIndexing
            shaderStorageBufferArrayDynamicIndexing shaderStorageImageArrayDynamicIndexing
            shaderClipDistance shaderCullDistance shaderFloat64 shaderInt64 shaderInt16
            shaderResourceResidency shaderResourceMinLod sparseBinding sparseResidencyBuffer
            sparseResidencyImage2D sparseResidencyImage3D sparseResidency2Samples sparseResidency4Samples
            sparseResidency8Samples sparseResidency16Samples sparseResidencyAliased variableMultisampleRate
            inheritedQueries",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_1_FEATURES,
        since: Since::Version(1, 2),
        names: "
            storageBuffer16BitAccess uniformAndStorageBuffer16BitAccess storagePushConstant16
            storageInputOutput16 multiview multiviewGeometryShader multiviewTessellationShader
            variablePointersStorageBuffer variablePointers protectedMemory samplerYcbcrConversion
            shaderDrawParameters",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_2_FEATURES,
        since: Since::Version(1, 2),
        names: "
            samplerMirrorClampToEdge drawIndirectCount storageBuffer8BitAccess
            uniformAndStorageBuffer8BitAccess storagePushConstant8 shaderBufferInt64Atomics
            shaderSharedInt64Atomics shaderFloat16 shaderInt8 descriptorIndexing
            shaderInputAttachmentArrayDynamicIndexing shaderUniformTexelBufferArrayDynamicIndexing
            shaderStorageTexelBufferArrayDynamicIndexing shaderUniformBufferArrayNonUniformIndexing
            shaderSampledImageArrayNonUniformIndexing shaderStorageBufferArrayNonUniformIndexing
            shaderStorageImageArrayNonUniformIndexing shaderInputAttachmentArrayNonUniformIndexing
            shaderUniformTexelBufferArrayNonUniformIndexing shaderStorageTexelBufferArrayNonUniformIndexing
            descriptorBindingUniformBufferUpdateAfterBind descriptorBindingSampledImageUpdateAfterBind
            descriptorBindingStorageImageUpdateAfterBind descriptorBindingStorageBufferUpdateAfterBind
            descriptorBindingUniformTexelBufferUpdateAfterBind
            descriptorBindingStorageTexelBufferUpdateAfterBind descriptorBindingUpdateUnusedWhilePending
            descriptorBindingPartiallyBound descriptorBindingVariableDescriptorCount runtimeDescriptorArray
            samplerFilterMinmax scalarBlockLayout imagelessFramebuffer uniformBufferStandardLayout
            shaderSubgroupExtendedTypes separateDepthStencilLayouts hostQueryReset timelineSemaphore
            bufferDeviceAddress bufferDeviceAddressCaptureReplay bufferDeviceAddressMultiDevice
            vulkanMemoryModel vulkanMemoryModelDeviceScope vulkanMemoryModelAvailabilityVisibilityChains
            shaderOutputViewportIndex shaderOutputLayer subgroupBroadcastDynamicId",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_VULKAN_1_3_FEATURES,
        since: Since::Version(1, 3),
        names: "
            robustImageAccess inlineUniformBlock descriptorBindingInlineUniformBlockUpdateAfterBind
            pipelineCreationCacheControl privateData shaderDemoteToHelperInvocation
            shaderTerminateInvocation subgroupSizeControl computeFullSubgroups synchronization2
            textureCompressionAstcHdr shaderZeroInitializeWorkgroupMemory dynamicRendering
            shaderIntegerDotProduct maintenance4",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
        since: Since::Extension("VK_KHR_cooperative_matrix"),
        names: "
            cooperativeMatrix cooperativeMatrixRobustBufferAccess",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT,
        since: Since::Extension("VK_EXT_shader_atomic_float"),
        names: "
            shaderBufferFloat32Atomics shaderBufferFloat32AtomicAdd shaderBufferFloat64Atomics
            shaderBufferFloat64AtomicAdd shaderSharedFloat32Atomics shaderSharedFloat32AtomicAdd
            shaderSharedFloat64Atomics shaderSharedFloat64AtomicAdd shaderImageFloat32Atomics
            shaderImageFloat32AtomicAdd sparseImageFloat32Atomics sparseImageFloat32AtomicAdd",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_2_FEATURES_EXT,
        since: Since::Extension("VK_EXT_shader_atomic_float2"),
        names: "
            shaderBufferFloat16Atomics shaderBufferFloat16AtomicAdd shaderBufferFloat16AtomicMinMax
            shaderBufferFloat32AtomicMinMax shaderBufferFloat64AtomicMinMax shaderSharedFloat16Atomics
            shaderSharedFloat16AtomicAdd shaderSharedFloat16AtomicMinMax shaderSharedFloat32AtomicMinMax
            shaderSharedFloat64AtomicMinMax shaderImageFloat32AtomicMinMax sparseImageFloat32AtomicMinMax",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_WORKGROUP_MEMORY_EXPLICIT_LAYOUT_FEATURES_KHR,
        since: Since::Extension("VK_KHR_workgroup_memory_explicit_layout"),
        names: "
            workgroupMemoryExplicitLayout workgroupMemoryExplicitLayoutScalarBlockLayout
            workgroupMemoryExplicitLayout8BitAccess workgroupMemoryExplicitLayout16BitAccess",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_SHADER_FLOAT_CONTROLS_2_FEATURES_KHR,
        since: Since::Extension("VK_KHR_shader_float_controls2"),
        names: "
            shaderFloatControls2",
    },
    Group {
        tag: vk::StructureType::PHYSICAL_DEVICE_SHADER_SUBGROUP_ROTATE_FEATURES_KHR,
        since: Since::Extension("VK_KHR_shader_subgroup_rotate"),
        names: "
            shaderSubgroupRotate shaderSubgroupRotateClustered",
    },
    Group {
        // Newer than the bindings.
        tag: vk::StructureType::from_raw(1000141000),
        since: Since::Extension("VK_KHR_shader_bfloat16"),
        names: "shaderBFloat16Type shaderBFloat16DotProduct shaderBFloat16CooperativeMatrix",
    },
    Group {
        // Newer than the bindings.
        tag: vk::StructureType::from_raw(1000567000),
        since: Since::Extension("VK_EXT_shader_float8"),
        names: "shaderFloat8 shaderFloat8CooperativeMatrix",
    },
];

#[repr(C)]
struct Row {
    tag: vk::StructureType,
    next: *mut c_void,
    values: [vk::Bool32; MOST],
}

/// Rows linked by `next`, in the order of `GROUPS`; the first is `VkPhysicalDeviceFeatures2`.
pub(super) struct Chain {
    // Boxed: the rows point at each other.
    rows: Vec<(&'static Group, Box<Row>)>,
}

impl Chain {
    /// All false. Structures that the device does not know are left out.
    fn new(api: u32, extensions: &BTreeSet<String>) -> Self {
        let known = |g: &&Group| match g.since {
            Since::Version(major, minor) => api >= vk::make_api_version(0, major, minor, 0),
            Since::Extension(x) => extensions.contains(x),
        };
        let row = |g: &Group| Box::new(Row { tag: g.tag, next: null_mut(), values: [vk::FALSE; MOST] });
        let mut rows: Vec<_> = GROUPS.iter().filter(known).map(|g| (g, row(g))).collect();
        let mut next = null_mut();
        for (_, r) in rows.iter_mut().rev() {
            r.next = next;
            next = std::ptr::from_mut::<Row>(r).cast();
        }
        Chain { rows }
    }

    /// The features that a device has, with those that its extensions bring.
    pub fn of(
        instance: &ash::Instance,
        device: vk::PhysicalDevice,
        api: u32,
        extensions: &BTreeSet<String>,
    ) -> BTreeSet<&'static str> {
        let mut chain = Chain::new(api, extensions);
        let Some((_, first)) = chain.rows.first_mut() else { return BTreeSet::new() };
        // Safety: the first row has the layout of VkPhysicalDeviceFeatures2 and is longer; so are those it links to.
        unsafe {
            let first = &mut *std::ptr::from_mut::<Row>(first).cast::<vk::PhysicalDeviceFeatures2>();
            instance.get_physical_device_features2(device, first);
        }
        let on = |(g, r): &(&'static Group, Box<Row>)| -> Vec<&'static str> {
            g.names.split_whitespace().zip(r.values).filter(|x| x.1 != vk::FALSE).map(|x| x.0).collect()
        };
        chain.rows.iter().flat_map(on).collect()
    }

    /// A chain for `VkDeviceCreateInfo` that enables `names`, all of which the device has. Rows without one are left out.
    pub fn enabling(names: &[&str], api: u32, extensions: &BTreeSet<String>) -> Self {
        let mut chain = Chain::new(api, extensions);
        for (g, r) in &mut chain.rows {
            for (i, name) in g.names.split_whitespace().enumerate() {
                r.values[i] = vk::Bool32::from(names.contains(&name));
            }
        }
        chain.rows.retain(|(_, r)| r.values.contains(&vk::TRUE));
        let mut next = null_mut();
        for (_, r) in chain.rows.iter_mut().rev() {
            r.next = next;
            next = std::ptr::from_mut::<Row>(r).cast();
        }
        chain
    }

    /// For `VkDeviceCreateInfo::pNext`.
    pub fn head(&self) -> *const c_void {
        self.rows.first().map_or(std::ptr::null(), |(_, r)| std::ptr::from_ref::<Row>(r).cast())
    }
}

/// Whether some Vulkan structure of the table has this feature.
pub(super) fn is_known(name: &str) -> bool {
    GROUPS.iter().any(|g| g.names.split_whitespace().any(|n| n == name))
}

/// The extension that brings a feature, if one does.
pub(super) fn extension_of(name: &str) -> Option<&'static str> {
    let group = GROUPS.iter().find(|g| g.names.split_whitespace().any(|n| n == name))?;
    match group.since {
        Since::Extension(x) => Some(x),
        Since::Version(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    fn group(tag: vk::StructureType) -> Vec<&'static str> {
        GROUPS.iter().find(|g| g.tag == tag).unwrap().names.split_whitespace().collect()
    }

    /// Positions against the bindings, which are generated from the specification.
    #[test]
    fn names_stand_where_the_structures_have_them() {
        const HEADER: usize = offset_of!(Row, values);
        let core = group(vk::StructureType::PHYSICAL_DEVICE_FEATURES_2);
        assert_eq!(core.len() * 4, size_of::<vk::PhysicalDeviceFeatures>());
        assert_eq!(core[offset_of!(vk::PhysicalDeviceFeatures, shader_float64) / 4], "shaderFloat64");
        assert_eq!(core[offset_of!(vk::PhysicalDeviceFeatures, shader_int16) / 4], "shaderInt16");
        macro_rules! at {
            ($tag:ident $type:ident: $($field:ident = $name:literal),*) => {
                let names = group(vk::StructureType::$tag);
                assert_eq!((HEADER + names.len() * 4).next_multiple_of(8), size_of::<vk::$type>());
                $(assert_eq!(names[(offset_of!(vk::$type, $field) - HEADER) / 4], $name);)*
            };
        }
        at!(PHYSICAL_DEVICE_VULKAN_1_1_FEATURES PhysicalDeviceVulkan11Features:
            storage_buffer16_bit_access = "storageBuffer16BitAccess", variable_pointers = "variablePointers");
        at!(PHYSICAL_DEVICE_VULKAN_1_2_FEATURES PhysicalDeviceVulkan12Features:
            storage_buffer8_bit_access = "storageBuffer8BitAccess", shader_float16 = "shaderFloat16",
            shader_int8 = "shaderInt8", buffer_device_address = "bufferDeviceAddress",
            vulkan_memory_model = "vulkanMemoryModel");
        at!(PHYSICAL_DEVICE_VULKAN_1_3_FEATURES PhysicalDeviceVulkan13Features:
            subgroup_size_control = "subgroupSizeControl", maintenance4 = "maintenance4");
        at!(PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR PhysicalDeviceCooperativeMatrixFeaturesKHR:
            cooperative_matrix = "cooperativeMatrix");
        at!(PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT PhysicalDeviceShaderAtomicFloatFeaturesEXT:
            shader_buffer_float32_atomic_add = "shaderBufferFloat32AtomicAdd");
    }

    #[test]
    fn a_chain_enables_what_it_was_asked_for() {
        let api = vk::make_api_version(0, 1, 3, 0);
        let chain = Chain::enabling(&["shaderInt8", "shaderInt64", "storageBuffer8BitAccess"], api, &BTreeSet::new());
        assert_eq!(chain.rows.len(), 2);
        assert_eq!(chain.rows[0].1.next.cast_const(), std::ptr::from_ref::<Row>(&chain.rows[1].1).cast::<c_void>());
        assert!(chain.rows[1].1.next.is_null());
        let on: u32 = chain.rows.iter().flat_map(|(_, r)| r.values).sum();
        assert_eq!(on, 3);
        assert!(Chain::enabling(&[], api, &BTreeSet::new()).head().is_null());
        assert!(is_known("cooperativeMatrix") && !is_known("coopMatrix"));
        assert_eq!(extension_of("cooperativeMatrix"), Some("VK_KHR_cooperative_matrix"));
        assert_eq!((extension_of("shaderInt8"), extension_of("coopMatrix")), (None, None));
    }
}
