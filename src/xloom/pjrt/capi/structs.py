"""The structures of PJRT's C API 0.112: made from XLA's headers by tests/judges/pjrt_structs.py.

One line a structure: `name:type` a field. Types are `P` a pointer, `Z` size_t, `q` and `Q` 64-bit integers, `i` int or
an enumeration, `?` bool, `f` float, and the names of embedded structures. A result of the call ends in `>`.
"""

MAJOR, MINOR = 0, 112

ERROR_CODES = """
    OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS PERMISSION_DENIED
    RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED INTERNAL UNAVAILABLE DATA_LOSS
    UNAUTHENTICATED
"""

BUFFER_TYPES = """
    INVALID PRED S8 S16 S32 S64 U8 U16 U32 U64 F16 F32 F64 BF16 C64 C128 F8E5M2 F8E4M3FN F8E4M3B11FNUZ
    F8E5M2FNUZ F8E4M3FNUZ S4 U4 TOKEN S2 U2 F8E4M3 F8E3M4 F8E8M0FNU F4E2M1FN S1 U1 F6E2M3FN F6E3M2FN
"""

HOST_BUFFER_SEMANTICS = """
    ImmutableOnlyDuringCall ImmutableUntilTransferCompletes ImmutableZeroCopy MutableZeroCopy
"""

NAMED_VALUE_TYPES = """
    String Int64 Int64List Float Bool
"""

EXTENSION_TYPES = """
    Gpu_Custom_Call Profiler Custom_Partitioner Stream Layouts FFI MemoryDescriptions Triton RawBuffer
    PhaseCompile Example Unknown CrossHostTransfers ExecutableMetadata Callback HostAllocator TpuTopology
    TpuExecutable Megascale Shardings AbiVersion Collectives MultiSlice HostMemoryAllocator XlaTransform
"""

STRUCTS = {
    "PJRT_Extension_Base": """
        struct_size:Z type:i next:P
    """,
    "PJRT_Api_Version": """
        struct_size:Z extension_start:P major_version:i> minor_version:i>
    """,
    "PJRT_Error_Destroy_Args": """
        struct_size:Z extension_start:P error:P
    """,
    "PJRT_Error_Message_Args": """
        struct_size:Z extension_start:P error:P message:P> message_size:Z>
    """,
    "PJRT_Error_FunctionTable": """
        struct_size:Z instance_size:Z extension_start:P destroy:P message:P get_code:P for_each_payload:P
    """,
    "PJRT_Error": """
        vtable:P
    """,
    "PJRT_Error_GetCode_Args": """
        struct_size:Z extension_start:P error:P code:i>
    """,
    "PJRT_Error_ForEachPayload_Args": """
        struct_size:Z extension_start:P error:P visitor:P user_arg:P
    """,
    "PJRT_NamedValue": """
        struct_size:Z extension_start:P name:P name_size:Z type:i value:q value_size:Z
    """,
    "PJRT_Plugin_Initialize_Args": """
        struct_size:Z extension_start:P
    """,
    "PJRT_Plugin_Attributes_Args": """
        struct_size:Z extension_start:P attributes:P> num_attributes:Z>
    """,
    "PJRT_Event_Destroy_Args": """
        struct_size:Z extension_start:P event:P
    """,
    "PJRT_Event_IsReady_Args": """
        struct_size:Z extension_start:P event:P is_ready:?>
    """,
    "PJRT_Event_Error_Args": """
        struct_size:Z extension_start:P event:P
    """,
    "PJRT_Event_Await_Args": """
        struct_size:Z extension_start:P event:P
    """,
    "PJRT_Event_OnReady_Args": """
        struct_size:Z extension_start:P event:P callback:P user_arg:P
    """,
    "PJRT_Event_Create_Args": """
        struct_size:Z extension_start:P event:P>
    """,
    "PJRT_Event_Set_Args": """
        struct_size:Z extension_start:P event:P error_code:i error_message:P error_message_size:Z
    """,
    "PJRT_Memory_FunctionTable": """
        struct_size:Z extension_start:P instance_struct_size:Z get_user_data:P set_user_data:P
    """,
    "PJRT_Memory": """
        vtable:P
    """,
    "PJRT_KeyValueGetCallback_Args": """
        struct_size:Z extension_start:P key:P key_size:Z timeout_in_ms:i callback_error:P user_arg:P value:P>
        value_size:Z> value_deleter_callback:P>
    """,
    "PJRT_KeyValueTryGetCallback_Args": """
        struct_size:Z extension_start:P key:P key_size:Z callback_error:P user_arg:P value:P> value_size:Z>
        value_deleter_callback:P>
    """,
    "PJRT_KeyValuePutCallback_Args": """
        struct_size:Z extension_start:P key:P key_size:Z value:P value_size:Z callback_error:P user_arg:P
    """,
    "PJRT_Client_Create_Args": """
        struct_size:Z extension_start:P create_options:P num_options:Z kv_get_callback:P kv_get_user_arg:P
        kv_put_callback:P kv_put_user_arg:P client:P> kv_try_get_callback:P kv_try_get_user_arg:P
    """,
    "PJRT_Client_Destroy_Args": """
        struct_size:Z extension_start:P client:P
    """,
    "PJRT_Client_PlatformName_Args": """
        struct_size:Z extension_start:P client:P platform_name:P> platform_name_size:Z>
    """,
    "PJRT_Client_ProcessIndex_Args": """
        struct_size:Z extension_start:P client:P process_index:i>
    """,
    "PJRT_Client_PlatformVersion_Args": """
        struct_size:Z extension_start:P client:P platform_version:P> platform_version_size:Z>
    """,
    "PJRT_Client_TopologyDescription_Args": """
        struct_size:Z extension_start:P client:P topology:P>
    """,
    "PJRT_Client_Devices_Args": """
        struct_size:Z extension_start:P client:P devices:P> num_devices:Z>
    """,
    "PJRT_Client_AddressableDevices_Args": """
        struct_size:Z extension_start:P client:P addressable_devices:P> num_addressable_devices:Z>
    """,
    "PJRT_Client_LookupDevice_Args": """
        struct_size:Z extension_start:P client:P id:i device:P>
    """,
    "PJRT_Client_LookupAddressableDevice_Args": """
        struct_size:Z extension_start:P client:P local_hardware_id:i addressable_device:P>
    """,
    "PJRT_ProcessInfo": """
        struct_size:Z task_id:i incarnation_id:Q state:i error_code:i error_message:P error_message_size:Z
    """,
    "PJRT_Client_UpdateGlobalProcessInfo_Args": """
        struct_size:Z extension_start:P client:P process_infos:P num_process_infos:Z
    """,
    "PJRT_Client_AddressableMemories_Args": """
        struct_size:Z extension_start:P client:P addressable_memories:P> num_addressable_memories:Z>
    """,
    "PJRT_Program": """
        struct_size:Z extension_start:P code:P code_size:Z format:P format_size:Z
    """,
    "PJRT_Client_Compile_Args": """
        struct_size:Z extension_start:P client:P program:P compile_options:P compile_options_size:Z
        executable:P>
    """,
    "PJRT_Client_Load_Args": """
        struct_size:Z extension_start:P client:P executable:P compile_options:P compile_options_size:Z
        loaded_executable:P>
    """,
    "PJRT_Client_DefaultDeviceAssignment_Args": """
        struct_size:Z extension_start:P client:P num_replicas:i num_partitions:i default_assignment_size:Z
        default_assignment:P
    """,
    "PJRT_Client_DmaMap_Args": """
        struct_size:Z extension_start:P client:P data:P size:Z
    """,
    "PJRT_Client_DmaUnmap_Args": """
        struct_size:Z extension_start:P client:P data:P
    """,
    "PJRT_AsyncHostToDeviceTransferManager_Destroy_Args": """
        struct_size:Z extension_start:P transfer_manager:P
    """,
    "PJRT_AsyncHostToDeviceTransferManager_TransferData_Args": """
        struct_size:Z extension_start:P transfer_manager:P buffer_index:i data:P offset:q transfer_size:q
        is_last_transfer:? done_with_h2d_transfer:P>
    """,
    "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer_Args": """
        struct_size:Z extension_start:P transfer_manager:P buffer_index:i buffer_out:P>
    """,
    "PJRT_AsyncHostToDeviceTransferManager_Device_Args": """
        struct_size:Z extension_start:P transfer_manager:P device_out:P>
    """,
    "PJRT_AsyncHostToDeviceTransferManager_BufferCount_Args": """
        struct_size:Z extension_start:P transfer_manager:P buffer_count:Z>
    """,
    "PJRT_AsyncHostToDeviceTransferManager_BufferSize_Args": """
        struct_size:Z extension_start:P transfer_manager:P buffer_index:i buffer_size:Z>
    """,
    "PJRT_AsyncHostToDeviceTransferManager_SetBufferError_Args": """
        struct_size:Z extension_start:P transfer_manager:P buffer_index:i error_code:i error_message:P
        error_message_size:Z
    """,
    "PJRT_AsyncHostToDeviceTransferManager_AddMetadata_Args": """
        struct_size:Z extension_start:P transfer_manager:P transfer_metadata:P num_metadata:Z
    """,
    "PJRT_Buffer_MemoryLayout_Tiled": """
        struct_size:Z extension_start:P minor_to_major:P minor_to_major_size:Z tile_dims:P tile_dim_sizes:P
        num_tiles:Z
    """,
    "PJRT_Buffer_MemoryLayout_Strides": """
        struct_size:Z extension_start:P byte_strides:P num_byte_strides:Z
    """,
    "PJRT_Buffer_MemoryLayout": """
        struct_size:Z extension_start:P tiled:PJRT_Buffer_MemoryLayout_Tiled type:i
    """,
    "PJRT_AsyncHostToDeviceTransferManager_TransferLiteral_Args": """
        struct_size:Z extension_start:P transfer_manager:P buffer_index:i data:P shape_dims:P shape_num_dims:Z
        shape_element_type:i shape_layout:P done_with_h2d_transfer:P>
    """,
    "PJRT_Client_CreateUninitializedBuffer_Args": """
        struct_size:Z extension_start:P client:P shape_dims:P shape_num_dims:Z shape_element_type:i
        shape_layout:P device:P memory:P buffer:P>
    """,
    "PJRT_Client_CreateErrorBuffer_Args": """
        struct_size:Z extension_start:P client:P error_code:i error_message:P error_message_size:Z
        shape_dims:P shape_num_dims:Z shape_element_type:i shape_layout:P memory:P buffer:P> payload:P
        num_payload:Z
    """,
    "PJRT_Client_CreateAliasBuffer_Args": """
        struct_size:Z extension_start:P client:P memory:P shape_dims:P shape_num_dims:Z shape_element_type:i
        shape_layout:P alias_buffer:P> fulfill_alias_buffer_cb:P>
    """,
    "PJRT_Client_FulfillAliasBuffer_Args": """
        struct_size:Z extension_start:P client:P buffer:P status_code:i error_message:P error_message_size:Z
        fulfill_alias_buffer_cb:P
    """,
    "PJRT_Client_BufferFromHostBuffer_Args": """
        struct_size:Z extension_start:P client:P data:P type:i dims:P num_dims:Z byte_strides:P
        num_byte_strides:Z host_buffer_semantics:i device:P memory:P device_layout:P done_with_host_buffer:P>
        buffer:P>
    """,
    "PJRT_Client_CreateViewOfDeviceBuffer_Args": """
        struct_size:Z extension_start:P client:P device_buffer_ptr:P dims:P num_dims:Z element_type:i layout:P
        device:P on_delete_callback:P on_delete_callback_arg:P stream:q buffer:P> memory:P
    """,
    "PJRT_ShapeSpec": """
        struct_size:Z extension_start:P dims:P num_dims:Z element_type:i
    """,
    "PJRT_Client_CreateBuffersForAsyncHostToDevice_Args": """
        struct_size:Z extension_start:P client:P shape_specs:P num_shape_specs:Z device_layouts:P
        num_device_layouts:Z memory:P transfer_manager:P>
    """,
    "PJRT_DeviceDescription_Id_Args": """
        struct_size:Z extension_start:P device_description:P id:i>
    """,
    "PJRT_DeviceDescription_ProcessIndex_Args": """
        struct_size:Z extension_start:P device_description:P process_index:i>
    """,
    "PJRT_DeviceDescription_Attributes_Args": """
        struct_size:Z extension_start:P device_description:P num_attributes:Z> attributes:P>
    """,
    "PJRT_DeviceDescription_Kind_Args": """
        struct_size:Z extension_start:P device_description:P device_kind:P> device_kind_size:Z>
    """,
    "PJRT_DeviceDescription_DebugString_Args": """
        struct_size:Z extension_start:P device_description:P debug_string:P> debug_string_size:Z>
    """,
    "PJRT_DeviceDescription_ToString_Args": """
        struct_size:Z extension_start:P device_description:P to_string:P> to_string_size:Z>
    """,
    "PJRT_Device_GetDescription_Args": """
        struct_size:Z extension_start:P device:P device_description:P>
    """,
    "PJRT_Device_IsAddressable_Args": """
        struct_size:Z extension_start:P device:P is_addressable:?>
    """,
    "PJRT_Device_LocalHardwareId_Args": """
        struct_size:Z extension_start:P device:P local_hardware_id:i>
    """,
    "PJRT_Device_AddressableMemories_Args": """
        struct_size:Z extension_start:P device:P memories:P> num_memories:Z>
    """,
    "PJRT_Device_DefaultMemory_Args": """
        struct_size:Z extension_start:P device:P memory:P>
    """,
    "PJRT_Device_MemoryStats_Args": """
        struct_size:Z extension_start:P device:P bytes_in_use:q> peak_bytes_in_use:q>
        peak_bytes_in_use_is_set:?> num_allocs:q> num_allocs_is_set:?> largest_alloc_size:q>
        largest_alloc_size_is_set:?> bytes_limit:q> bytes_limit_is_set:?> bytes_reserved:q>
        bytes_reserved_is_set:?> peak_bytes_reserved:q> peak_bytes_reserved_is_set:?>
        bytes_reservable_limit:q> bytes_reservable_limit_is_set:?> largest_free_block_bytes:q>
        largest_free_block_bytes_is_set:?> pool_bytes:q> pool_bytes_is_set:?> peak_pool_bytes:q>
        peak_pool_bytes_is_set:?>
    """,
    "PJRT_Device_ClearMemoryStats_Args": """
        struct_size:Z extension_start:P device:P
    """,
    "PJRT_Device_PoisonExecution_Args": """
        struct_size:Z extension_start:P device:P launch_id:i error_code:i error_message:P error_message_size:Z
        poisoned:?> payload:P num_payload:Z
    """,
    "PJRT_Device_GetAttributes_Args": """
        struct_size:Z extension_start:P device:P attributes:P> num_attributes:Z> device_attributes:P>
        attributes_deleter:P
    """,
    "PJRT_Device_CreateAsyncTrackingEvent_Args": """
        struct_size:Z extension_start:P device:P description:P description_size:Z event:P>
    """,
    "PJRT_AsyncTrackingEvent_Destroy_Args": """
        struct_size:Z extension_start:P event:P
    """,
    "PJRT_Memory_Id_Args": """
        struct_size:Z extension_start:P memory:P id:i>
    """,
    "PJRT_Memory_Kind_Args": """
        struct_size:Z extension_start:P memory:P kind:P> kind_size:Z>
    """,
    "PJRT_Memory_Kind_Id_Args": """
        struct_size:Z extension_start:P memory:P kind_id:i>
    """,
    "PJRT_Memory_DebugString_Args": """
        struct_size:Z extension_start:P memory:P debug_string:P> debug_string_size:Z>
    """,
    "PJRT_Memory_ToString_Args": """
        struct_size:Z extension_start:P memory:P to_string:P> to_string_size:Z>
    """,
    "PJRT_Memory_AddressableByDevices_Args": """
        struct_size:Z extension_start:P memory:P devices:P> num_devices:Z>
    """,
    "PJRT_ExecuteContext_Create_Args": """
        struct_size:Z extension_start:P context:P>
    """,
    "PJRT_ExecuteContext_Destroy_Args": """
        struct_size:Z extension_start:P context:P
    """,
    "PJRT_Executable_Destroy_Args": """
        struct_size:Z extension_start:P executable:P
    """,
    "PJRT_LoadedExecutable_Destroy_Args": """
        struct_size:Z extension_start:P executable:P
    """,
    "PJRT_LoadedExecutable_GetExecutable_Args": """
        struct_size:Z extension_start:P loaded_executable:P executable:P>
    """,
    "PJRT_LoadedExecutable_GetDeviceAssignment_Args": """
        struct_size:Z extension_start:P executable:P serialized_bytes:P> serialized_bytes_size:Z>
        serialized_device_assignment:P serialized_device_assignment_deleter:P
    """,
    "PJRT_Executable_Name_Args": """
        struct_size:Z extension_start:P executable:P executable_name:P> executable_name_size:Z>
    """,
    "PJRT_Executable_NumReplicas_Args": """
        struct_size:Z extension_start:P executable:P num_replicas:Z>
    """,
    "PJRT_Executable_NumPartitions_Args": """
        struct_size:Z extension_start:P executable:P num_partitions:Z>
    """,
    "PJRT_LogicalDeviceIds": """
        replica:i partition:i
    """,
    "PJRT_LoadedExecutable_AddressableDevices_Args": """
        struct_size:Z extension_start:P executable:P addressable_devices:P> num_addressable_devices:Z>
    """,
    "PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args": """
        struct_size:Z extension_start:P executable:P addressable_device_logical_ids:P>
        num_addressable_device_logical_ids:Z>
    """,
    "PJRT_Executable_OptimizedProgram_Args": """
        struct_size:Z extension_start:P executable:P program:P>
    """,
    "PJRT_LoadedExecutable_Delete_Args": """
        struct_size:Z extension_start:P executable:P
    """,
    "PJRT_LoadedExecutable_IsDeleted_Args": """
        struct_size:Z extension_start:P executable:P is_deleted:?>
    """,
    "PJRT_Chunk": """
        data:P size:Z deleter:P deleter_arg:P
    """,
    "PJRT_SendCallbackInfo": """
        channel_id:q user_arg:P send_callback:P
    """,
    "PJRT_RecvCallbackInfo": """
        channel_id:q user_arg:P recv_callback:P
    """,
    "PJRT_HloOutputCallbackInfo": """
        user_arg:P callback:P callback_id:q num_operands:Z
    """,
    "PJRT_ExecuteOptions": """
        struct_size:Z extension_start:P send_callbacks:P recv_callbacks:P num_send_ops:Z num_recv_ops:Z
        launch_id:i non_donatable_input_indices:P num_non_donatable_input_indices:Z context:P call_location:P
        num_tasks:Z task_ids:P incarnation_ids:P multi_slice_config:P
        use_major_to_minor_data_layout_for_callbacks:? hlo_output_callbacks:P num_hlo_output_callbacks:Z
    """,
    "PJRT_LoadedExecutable_Execute_Args": """
        struct_size:Z extension_start:P executable:P options:P argument_lists:P num_devices:Z num_args:Z
        output_lists:P device_complete_events:P execute_device:P
    """,
    "PJRT_Executable_NumOutputs_Args": """
        struct_size:Z extension_start:P executable:P num_outputs:Z>
    """,
    "PJRT_Executable_SizeOfGeneratedCodeInBytes_Args": """
        struct_size:Z extension_start:P executable:P size_in_bytes:q>
    """,
    "PJRT_Executable_Fingerprint_Args": """
        struct_size:Z extension_start:P executable:P executable_fingerprint:P> executable_fingerprint_size:Z>
    """,
    "PJRT_Executable_GetCostAnalysis_Args": """
        struct_size:Z extension_start:P executable:P num_properties:Z> properties:P>
    """,
    "PJRT_Executable_GetCompiledMemoryStats_Args": """
        struct_size:Z extension_start:P executable:P generated_code_size_in_bytes:q> argument_size_in_bytes:q>
        output_size_in_bytes:q> alias_size_in_bytes:q> temp_size_in_bytes:q>
        host_generated_code_size_in_bytes:q> host_argument_size_in_bytes:q> host_output_size_in_bytes:q>
        host_alias_size_in_bytes:q> host_temp_size_in_bytes:q> peak_memory_in_bytes:q> total_size_in_bytes:q>
        total_allocation_bytes:q> indefinite_allocations:q> peak_unpadded_heap_bytes:q>
    """,
    "PJRT_Executable_OutputElementTypes_Args": """
        struct_size:Z extension_start:P executable:P output_types:P> num_output_types:Z>
    """,
    "PJRT_Executable_OutputDimensions_Args": """
        struct_size:Z extension_start:P executable:P num_outputs:Z dims:P> dim_sizes:P>
    """,
    "PJRT_Executable_ParameterMemoryKinds_Args": """
        struct_size:Z extension_start:P executable:P num_parameters:Z memory_kinds:P> memory_kind_sizes:P>
    """,
    "PJRT_Executable_OutputMemoryKinds_Args": """
        struct_size:Z extension_start:P executable:P num_outputs:Z> memory_kinds:P> memory_kind_sizes:P>
    """,
    "PJRT_Executable_Serialize_Args": """
        struct_size:Z extension_start:P executable:P serialized_bytes:P> serialized_bytes_size:Z>
        serialized_executable:P serialized_executable_deleter:P
    """,
    "PJRT_Executable_GetCompileOptions_Args": """
        struct_size:Z extension_start:P executable:P serialized_bytes:P> serialized_bytes_size:Z>
        serialized_compile_options:P serialized_compile_options_deleter:P
    """,
    "PJRT_LoadOptions": """
        struct_size:Z computation_origin:P computation_origin_size:Z multi_slice_config:P
    """,
    "PJRT_Executable_DeserializeAndLoad_Args": """
        struct_size:Z extension_start:P client:P serialized_executable:P serialized_executable_size:Z
        loaded_executable:P> overridden_serialized_compile_options:P
        overridden_serialized_compile_options_size:Z load_options:P
    """,
    "PJRT_LoadedExecutable_Fingerprint_Args": """
        struct_size:Z extension_start:P executable:P executable_fingerprint:P> executable_fingerprint_size:Z>
    """,
    "PJRT_Buffer_Destroy_Args": """
        struct_size:Z extension_start:P buffer:P
    """,
    "PJRT_Buffer_ElementType_Args": """
        struct_size:Z extension_start:P buffer:P type:i>
    """,
    "PJRT_Buffer_Dimensions_Args": """
        struct_size:Z extension_start:P buffer:P dims:P> num_dims:Z>
    """,
    "PJRT_Buffer_UnpaddedDimensions_Args": """
        struct_size:Z extension_start:P buffer:P unpadded_dims:P> num_dims:Z>
    """,
    "PJRT_Buffer_DynamicDimensionIndices_Args": """
        struct_size:Z extension_start:P buffer:P dynamic_dim_indices:P> num_dynamic_dims:Z>
    """,
    "PJRT_Buffer_GetMemoryLayout_Args": """
        struct_size:Z extension_start:P buffer:P layout:PJRT_Buffer_MemoryLayout>
    """,
    "PJRT_Buffer_ToHostBuffer_Args": """
        struct_size:Z extension_start:P src:P host_layout:P dst:P dst_size:Z event:P>
    """,
    "PJRT_Buffer_OnDeviceSizeInBytes_Args": """
        struct_size:Z extension_start:P buffer:P on_device_size_in_bytes:Z>
    """,
    "PJRT_Buffer_Delete_Args": """
        struct_size:Z extension_start:P buffer:P
    """,
    "PJRT_Buffer_IsDeleted_Args": """
        struct_size:Z extension_start:P buffer:P is_deleted:?>
    """,
    "PJRT_Buffer_CopyRawToHost_Args": """
        struct_size:Z extension_start:P buffer:P dst:P offset:q transfer_size:q event:P>
    """,
    "PJRT_Buffer_CopyRawToHostFuture_Callback_Args": """
        struct_size:Z callback_data:P error_code:i error_message:P error_message_size:Z dst:P
    """,
    "PJRT_Buffer_CopyRawToHostFuture_Args": """
        struct_size:Z extension_start:P buffer:P offset:q transfer_size:q event:P> callback_data:P>
        future_ready_callback:P
    """,
    "PJRT_Buffer_CopyToDevice_Args": """
        struct_size:Z extension_start:P buffer:P dst_device:P dst_buffer:P>
    """,
    "PJRT_Buffer_CopyToMemory_Args": """
        struct_size:Z extension_start:P buffer:P dst_memory:P dst_buffer:P>
    """,
    "PJRT_Buffer_Bitcast_Args": """
        struct_size:Z extension_start:P buffer:P element_type:i dims:P num_dims:Z device_layout:P
        out_buffer:P>
    """,
    "PJRT_Buffer_IsOnCpu_Args": """
        struct_size:Z extension_start:P buffer:P is_on_cpu:?>
    """,
    "PJRT_Buffer_Device_Args": """
        struct_size:Z extension_start:P buffer:P device:P>
    """,
    "PJRT_Buffer_Memory_Args": """
        struct_size:Z extension_start:P buffer:P memory:P>
    """,
    "PJRT_Buffer_ReadyEvent_Args": """
        struct_size:Z extension_start:P buffer:P event:P>
    """,
    "PJRT_Buffer_UnsafePointer_Args": """
        struct_size:Z extension_start:P buffer:P buffer_pointer:Q>
    """,
    "PJRT_Buffer_IncreaseExternalReferenceCount_Args": """
        struct_size:Z extension_start:P buffer:P
    """,
    "PJRT_Buffer_DecreaseExternalReferenceCount_Args": """
        struct_size:Z extension_start:P buffer:P
    """,
    "PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args": """
        struct_size:Z extension_start:P buffer:P device_memory_ptr:P>
    """,
    "PJRT_Buffer_DonateWithControlDependency_Callback_Args": """
        struct_size:Z callback_data:P error_code:i error_message:P error_message_size:Z
    """,
    "PJRT_Buffer_DonateWithControlDependency_Args": """
        struct_size:Z extension_start:P buffer:P callback_data:P> dependency_ready_callback:P out_buffer:P>
    """,
    "PJRT_CopyToDeviceStream_Destroy_Args": """
        struct_size:Z extension_start:P stream:P
    """,
    "PJRT_CopyToDeviceStream_AddChunk_Args": """
        struct_size:Z extension_start:P stream:P chunk:P transfer_complete:P>
    """,
    "PJRT_CopyToDeviceStream_TotalBytes_Args": """
        struct_size:Z extension_start:P stream:P total_bytes:q>
    """,
    "PJRT_CopyToDeviceStream_GranuleSize_Args": """
        struct_size:Z extension_start:P stream:P granule_size_in_bytes:q>
    """,
    "PJRT_CopyToDeviceStream_CurrentBytes_Args": """
        struct_size:Z extension_start:P stream:P current_bytes:q>
    """,
    "PJRT_TopologyDescription_Create_Args": """
        struct_size:Z extension_start:P topology_name:P topology_name_size:Z create_options:P num_options:Z
        topology:P>
    """,
    "PJRT_TopologyDescription_Destroy_Args": """
        struct_size:Z extension_start:P topology:P
    """,
    "PJRT_TopologyDescription_PlatformVersion_Args": """
        struct_size:Z extension_start:P topology:P platform_version:P> platform_version_size:Z>
    """,
    "PJRT_TopologyDescription_PlatformName_Args": """
        struct_size:Z extension_start:P topology:P platform_name:P> platform_name_size:Z>
    """,
    "PJRT_TopologyDescription_GetDeviceDescriptions_Args": """
        struct_size:Z extension_start:P topology:P descriptions:P> num_descriptions:Z>
    """,
    "PJRT_TopologyDescription_Serialize_Args": """
        struct_size:Z extension_start:P topology:P serialized_bytes:P> serialized_bytes_size:Z>
        serialized_topology:P> serialized_topology_deleter:P
    """,
    "PJRT_TopologyDescription_Deserialize_Args": """
        struct_size:Z extension_start:P serialized_topology:P serialized_topology_size:Z topology:P>
    """,
    "PJRT_TopologyDescription_Attributes_Args": """
        struct_size:Z extension_start:P topology:P attributes:P> num_attributes:Z>
    """,
    "PJRT_TopologyDescription_Fingerprint_Args": """
        struct_size:Z extension_start:P topology:P fingerprint:Q>
    """,
    "PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace_Args": """
        struct_size:Z extension_start:P topology:P memory_space_kind_id:i dims:P num_dims:Z element_type:i
        layout:P serialized_shape:P> serialized_shape_size:Z> serialized_shape_deleter:P
    """,
    "PJRT_TopologyDescription_GetMemorySpaceKindIds_Args": """
        struct_size:Z extension_start:P topology:P memory_space_kind_ids:P> num_memory_space_kind_ids:Z>
    """,
    "PJRT_Compile_Args": """
        struct_size:Z extension_start:P topology:P program:P compile_options:P compile_options_size:Z client:P
        executable:P>
    """,
    "PJRT_Api": """
        struct_size:Z extension_start:P pjrt_api_version:PJRT_Api_Version PJRT_Error_Destroy:P
        PJRT_Error_Message:P PJRT_Error_GetCode:P PJRT_Plugin_Initialize:P PJRT_Plugin_Attributes:P
        PJRT_Event_Destroy:P PJRT_Event_IsReady:P PJRT_Event_Error:P PJRT_Event_Await:P PJRT_Event_OnReady:P
        PJRT_Client_Create:P PJRT_Client_Destroy:P PJRT_Client_PlatformName:P PJRT_Client_ProcessIndex:P
        PJRT_Client_PlatformVersion:P PJRT_Client_Devices:P PJRT_Client_AddressableDevices:P
        PJRT_Client_LookupDevice:P PJRT_Client_LookupAddressableDevice:P PJRT_Client_AddressableMemories:P
        PJRT_Client_Compile:P PJRT_Client_DefaultDeviceAssignment:P PJRT_Client_BufferFromHostBuffer:P
        PJRT_DeviceDescription_Id:P PJRT_DeviceDescription_ProcessIndex:P PJRT_DeviceDescription_Attributes:P
        PJRT_DeviceDescription_Kind:P PJRT_DeviceDescription_DebugString:P PJRT_DeviceDescription_ToString:P
        PJRT_Device_GetDescription:P PJRT_Device_IsAddressable:P PJRT_Device_LocalHardwareId:P
        PJRT_Device_AddressableMemories:P PJRT_Device_DefaultMemory:P PJRT_Device_MemoryStats:P
        PJRT_Memory_Id:P PJRT_Memory_Kind:P PJRT_Memory_DebugString:P PJRT_Memory_ToString:P
        PJRT_Memory_AddressableByDevices:P PJRT_Executable_Destroy:P PJRT_Executable_Name:P
        PJRT_Executable_NumReplicas:P PJRT_Executable_NumPartitions:P PJRT_Executable_NumOutputs:P
        PJRT_Executable_SizeOfGeneratedCodeInBytes:P PJRT_Executable_GetCostAnalysis:P
        PJRT_Executable_OutputMemoryKinds:P PJRT_Executable_OptimizedProgram:P PJRT_Executable_Serialize:P
        PJRT_LoadedExecutable_Destroy:P PJRT_LoadedExecutable_GetExecutable:P
        PJRT_LoadedExecutable_AddressableDevices:P PJRT_LoadedExecutable_Delete:P
        PJRT_LoadedExecutable_IsDeleted:P PJRT_LoadedExecutable_Execute:P PJRT_Executable_DeserializeAndLoad:P
        PJRT_LoadedExecutable_Fingerprint:P PJRT_Buffer_Destroy:P PJRT_Buffer_ElementType:P
        PJRT_Buffer_Dimensions:P PJRT_Buffer_UnpaddedDimensions:P PJRT_Buffer_DynamicDimensionIndices:P
        PJRT_Buffer_GetMemoryLayout:P PJRT_Buffer_OnDeviceSizeInBytes:P PJRT_Buffer_Device:P
        PJRT_Buffer_Memory:P PJRT_Buffer_Delete:P PJRT_Buffer_IsDeleted:P PJRT_Buffer_CopyToDevice:P
        PJRT_Buffer_ToHostBuffer:P PJRT_Buffer_IsOnCpu:P PJRT_Buffer_ReadyEvent:P PJRT_Buffer_UnsafePointer:P
        PJRT_Buffer_IncreaseExternalReferenceCount:P PJRT_Buffer_DecreaseExternalReferenceCount:P
        PJRT_Buffer_OpaqueDeviceMemoryDataPointer:P PJRT_CopyToDeviceStream_Destroy:P
        PJRT_CopyToDeviceStream_AddChunk:P PJRT_CopyToDeviceStream_TotalBytes:P
        PJRT_CopyToDeviceStream_GranuleSize:P PJRT_CopyToDeviceStream_CurrentBytes:P
        PJRT_TopologyDescription_Create:P PJRT_TopologyDescription_Destroy:P
        PJRT_TopologyDescription_PlatformName:P PJRT_TopologyDescription_PlatformVersion:P
        PJRT_TopologyDescription_GetDeviceDescriptions:P PJRT_TopologyDescription_Serialize:P
        PJRT_TopologyDescription_Attributes:P PJRT_Compile:P PJRT_Executable_OutputElementTypes:P
        PJRT_Executable_OutputDimensions:P PJRT_Buffer_CopyToMemory:P PJRT_Client_CreateViewOfDeviceBuffer:P
        PJRT_Executable_Fingerprint:P PJRT_Client_TopologyDescription:P
        PJRT_Executable_GetCompiledMemoryStats:P PJRT_Memory_Kind_Id:P PJRT_ExecuteContext_Create:P
        PJRT_ExecuteContext_Destroy:P PJRT_Buffer_CopyRawToHost:P
        PJRT_AsyncHostToDeviceTransferManager_Destroy:P PJRT_AsyncHostToDeviceTransferManager_TransferData:P
        PJRT_Client_CreateBuffersForAsyncHostToDevice:P PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer:P
        PJRT_AsyncHostToDeviceTransferManager_Device:P PJRT_AsyncHostToDeviceTransferManager_BufferCount:P
        PJRT_AsyncHostToDeviceTransferManager_BufferSize:P
        PJRT_AsyncHostToDeviceTransferManager_SetBufferError:P
        PJRT_AsyncHostToDeviceTransferManager_AddMetadata:P PJRT_Client_DmaMap:P PJRT_Client_DmaUnmap:P
        PJRT_Client_CreateUninitializedBuffer:P PJRT_Client_UpdateGlobalProcessInfo:P
        PJRT_TopologyDescription_Deserialize:P PJRT_Client_CreateAliasBuffer:P
        PJRT_Client_FulfillAliasBuffer:P PJRT_LoadedExecutable_GetDeviceAssignment:P
        PJRT_Client_CreateErrorBuffer:P PJRT_AsyncHostToDeviceTransferManager_TransferLiteral:P
        PJRT_Buffer_CopyRawToHostFuture:P PJRT_Device_PoisonExecution:P PJRT_Device_CreateAsyncTrackingEvent:P
        PJRT_AsyncTrackingEvent_Destroy:P PJRT_Executable_GetCompileOptions:P
        PJRT_Buffer_DonateWithControlDependency:P PJRT_Event_Create:P PJRT_Event_Set:P
        PJRT_Device_GetAttributes:P PJRT_Client_Load:P PJRT_LoadedExecutable_AddressableDeviceLogicalIds:P
        PJRT_Buffer_Bitcast:P PJRT_Error_ForEachPayload:P PJRT_TopologyDescription_Fingerprint:P
        PJRT_Executable_ParameterMemoryKinds:P PJRT_Device_ClearMemoryStats:P
        PJRT_TopologyDescription_MakeCanonicalShapeForMemorySpace:P
        PJRT_TopologyDescription_GetMemorySpaceKindIds:P
    """,
    "PJRT_Layouts_MemoryLayout_Destroy_Args": """
        struct_size:Z extension_start:P layout:P
    """,
    "PJRT_Layouts_MemoryLayout_Serialize_Args": """
        struct_size:Z extension_start:P layout:P serialized_bytes:P> serialized_bytes_size:Z>
        serialized_layout:P serialized_layout_deleter:P
    """,
    "PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args": """
        struct_size:Z extension_start:P buffer:P layout:P>
    """,
    "PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args": """
        struct_size:Z extension_start:P client:P type:i dims:P num_dims:Z layout:P>
    """,
    "PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args": """
        struct_size:Z extension_start:P topology_description:P type:i dims:P num_dims:Z layout:P>
    """,
    "PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args": """
        struct_size:Z extension_start:P executable:P num_outputs:Z> layouts:P>
    """,
    "PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args": """
        struct_size:Z extension_start:P executable:P num_parameters:Z> layouts:P>
    """,
    "PJRT_Layouts_Extension": """
        base:PJRT_Extension_Base PJRT_Layouts_MemoryLayout_Destroy:P PJRT_Layouts_MemoryLayout_Serialize:P
        PJRT_Layouts_PJRT_Client_GetDefaultLayout:P PJRT_Layouts_PJRT_Buffer_MemoryLayout:P
        PJRT_Layouts_PJRT_Topology_GetDefaultLayout:P PJRT_Layouts_PJRT_Executable_GetOutputLayouts:P
        PJRT_Layouts_PJRT_Executable_GetParameterLayouts:P
    """,
    "PJRT_FFI_Type_Info": """
        deleter:P serialize:P deserialize:P
    """,
    "PJRT_FFI_Type_Register_Args": """
        struct_size:Z extension_start:P type_name:P type_name_size:Z type_id:q type_info:P
    """,
    "PJRT_FFI_UserData": """
        type_id:q data:P
    """,
    "PJRT_FFI_UserData_Add_Args": """
        struct_size:Z extension_start:P context:P user_data:PJRT_FFI_UserData
    """,
    "PJRT_FFI_Register_Handler_Args": """
        struct_size:Z target_name:P target_name_size:Z handler:P platform_name:P platform_name_size:Z traits:i
    """,
    "PJRT_FFI_Extension": """
        base:PJRT_Extension_Base type_register:P user_data_add:P register_handler:P
    """,
    "PJRT_DeviceDescription_MemoryDescriptions_Args": """
        struct_size:Z extension_start:P device_description:P memory_descriptions:P> num_memory_descriptions:Z>
        default_memory_index:Z>
    """,
    "PJRT_MemoryDescription_Kind_Args": """
        struct_size:Z extension_start:P memory_description:P kind:P> kind_size:Z> kind_id:i>
    """,
    "PJRT_MemoryDescriptions_Extension": """
        base:PJRT_Extension_Base PJRT_DeviceDescription_MemoryDescriptions:P PJRT_MemoryDescription_Kind:P
    """,
    "PJRT_Shardings_PJRT_Executable_ParameterShardings_Args": """
        struct_size:Z extension_start:P executable:P num_parameters:Z> shardings:P> sharding_sizes:P>
    """,
    "PJRT_Shardings_PJRT_Executable_OutputShardings_Args": """
        struct_size:Z extension_start:P executable:P num_outputs:Z> shardings:P> sharding_sizes:P>
    """,
    "PJRT_Shardings_Extension": """
        base:PJRT_Extension_Base PJRT_Shardings_PJRT_Executable_ParameterShardings:P
        PJRT_Shardings_PJRT_Executable_OutputShardings:P
    """,
    "JAX_CustomCallPartitioner_string": """
        data:P size:Z
    """,
    "JAX_CustomCallPartitioner_aval": """
        shape:JAX_CustomCallPartitioner_string has_sharding:? sharding:JAX_CustomCallPartitioner_string
    """,
    "JAX_CustomCallPartitioner_version_and_error": """
        api_version:q data:P> cleanup_fn:P has_error:? code:i> error_msg:JAX_CustomCallPartitioner_string>
    """,
    "JAX_CustomCallPartitioner_Partition_Args": """
        header:JAX_CustomCallPartitioner_version_and_error num_args:Z op_args:P
        op_result:JAX_CustomCallPartitioner_aval backend_config:JAX_CustomCallPartitioner_string
        mlir_module:JAX_CustomCallPartitioner_string args_sharding:P
        result_sharding:JAX_CustomCallPartitioner_string
    """,
    "JAX_CustomCallPartitioner_InferShardingFromOperands_Args": """
        header:JAX_CustomCallPartitioner_version_and_error num_args:Z op_args:P
        result_shape:JAX_CustomCallPartitioner_string backend_config:JAX_CustomCallPartitioner_string
        has_result_sharding:? result_sharding:JAX_CustomCallPartitioner_string
    """,
    "JAX_CustomCallPartitioner_PropagateUserSharding_Args": """
        header:JAX_CustomCallPartitioner_version_and_error backend_config:JAX_CustomCallPartitioner_string
        result_shape:JAX_CustomCallPartitioner_string result_sharding:JAX_CustomCallPartitioner_string
    """,
    "JAX_CustomCallPartitioner_Callbacks": """
        version:q private_data:P dtor:P partition:P infer_sharding:P propagate_user_sharding:P
        can_side_effecting_have_replicated_sharding:?
    """,
    "PJRT_Register_Custom_Partitioner_Args": """
        struct_size:Z name:P name_size:Z callbacks:P
    """,
    "PJRT_Register_Batch_Partitionable_Args": """
        struct_size:Z name:P name_size:Z
    """,
    "PJRT_Custom_Partitioner_Extension": """
        base:PJRT_Extension_Base register_custom_partitioner:P register_batch_partitionable:P
    """,
    "PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args": """
        struct_size:Z extension_start:P client:P num_buffers:Z buffers:P dst_global_device_ids:P
        transfer_keys:P send_events:P
    """,
    "PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args": """
        struct_size:Z extension_start:P client:P num_shapes:Z shape_num_dims:P num_dims:P element_types:P
        layouts:P device:P src_global_device_ids:P transfer_keys:P buffers:P
    """,
    "PJRT_Transfers_CrossHostRecvNotifierInfo": """
        user_arg:P notifier:P
    """,
    "PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args": """
        struct_size:Z extension_start:P client:P num_shapes:Z shape_num_dims:P num_dims:P element_types:P
        layouts:P device:P notifier:PJRT_Transfers_CrossHostRecvNotifierInfo buffers:P> num_buffers:Z>
    """,
    "PJRT_Transfers_CrossHostRemoteSendCallbackInfo": """
        user_arg:P on_done:P
    """,
    "PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice_Args": """
        struct_size:Z extension_start:P buffer:P event:P serialized_descriptor:P serialized_descriptor_size:P
        on_done:PJRT_Transfers_CrossHostRemoteSendCallbackInfo descriptor_destructor:P
    """,
    "PJRT_CrossHostTransfers_Extension": """
        base:PJRT_Extension_Base PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers:P
        PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice:P PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers:P
        PJRT_Transfers_PJRT_Client_CrossHostSendBuffers:P
    """,
    "PJRT_Profiler_Extension": """
        base:PJRT_Extension_Base profiler_api:P traceme_context_id:q
    """,
    "PLUGIN_Profiler_Error_Destroy_Args": """
        struct_size:Z priv:P error:P
    """,
    "PLUGIN_Profiler_Error_Message_Args": """
        struct_size:Z priv:P error:P message:P> message_size:Z>
    """,
    "PLUGIN_Profiler_Error_GetCode_Args": """
        struct_size:Z priv:P error:P code:i>
    """,
    "PLUGIN_Profiler_Create_Args": """
        struct_size:Z options:P options_size:Z profiler:P>
    """,
    "PLUGIN_Profiler_Destroy_Args": """
        struct_size:Z profiler:P
    """,
    "PLUGIN_Profiler_Start_Args": """
        struct_size:Z profiler:P
    """,
    "PLUGIN_Profiler_Stop_Args": """
        struct_size:Z profiler:P
    """,
    "PLUGIN_Profiler_CollectData_Args": """
        struct_size:Z profiler:P buffer:P buffer_size_in_bytes:Z>
    """,
    "PLUGIN_Profiler_Consume_Args": """
        struct_size:Z profiler:P result:P>
    """,
    "PLUGIN_Profiler_ConsumeResult_Destroy_Args": """
        struct_size:Z consume_result:P
    """,
    "PLUGIN_Profiler_Serialize_Args": """
        struct_size:Z profiler:P consume_result:P serialized_bytes:P> serialized_size:Z>
    """,
    "PLUGIN_Profiler_Api": """
        struct_size:Z priv:P error_destroy:P error_message:P error_get_code:P create:P destroy:P start:P
        stop:P collect_data:P consume:P consume_result_destroy:P serialize:P
    """,
}
