package pjrt

import "unsafe"

// fn is the position of a function in the PJRT_Api table. Positions never
// change within major version 0; new functions are added at the end. The order
// is that of the 0.117 header; the 0.81 header agrees on its 118.
type fn int

const (
	fnErrorDestroy fn = iota
	fnErrorMessage
	fnErrorGetCode
	fnPluginInitialize
	fnPluginAttributes
	fnEventDestroy
	fnEventIsReady
	fnEventError
	fnEventAwait
	fnEventOnReady
	fnClientCreate
	fnClientDestroy
	fnClientPlatformName
	fnClientProcessIndex
	fnClientPlatformVersion
	fnClientDevices
	fnClientAddressableDevices
	fnClientLookupDevice
	fnClientLookupAddressableDevice
	fnClientAddressableMemories
	fnClientCompile
	fnClientDefaultDeviceAssignment
	fnClientBufferFromHostBuffer
	fnDeviceDescriptionId
	fnDeviceDescriptionProcessIndex
	fnDeviceDescriptionAttributes
	fnDeviceDescriptionKind
	fnDeviceDescriptionDebugString
	fnDeviceDescriptionToString
	fnDeviceGetDescription
	fnDeviceIsAddressable
	fnDeviceLocalHardwareId
	fnDeviceAddressableMemories
	fnDeviceDefaultMemory
	fnDeviceMemoryStats
	fnMemoryId
	fnMemoryKind
	fnMemoryDebugString
	fnMemoryToString
	fnMemoryAddressableByDevices
	fnExecutableDestroy
	fnExecutableName
	fnExecutableNumReplicas
	fnExecutableNumPartitions
	fnExecutableNumOutputs
	fnExecutableSizeOfGeneratedCodeInBytes
	fnExecutableGetCostAnalysis
	fnExecutableOutputMemoryKinds
	fnExecutableOptimizedProgram
	fnExecutableSerialize
	fnLoadedExecutableDestroy
	fnLoadedExecutableGetExecutable
	fnLoadedExecutableAddressableDevices
	fnLoadedExecutableDelete
	fnLoadedExecutableIsDeleted
	fnLoadedExecutableExecute
	fnExecutableDeserializeAndLoad
	fnLoadedExecutableFingerprint
	fnBufferDestroy
	fnBufferElementType
	fnBufferDimensions
	fnBufferUnpaddedDimensions
	fnBufferDynamicDimensionIndices
	fnBufferGetMemoryLayout
	fnBufferOnDeviceSizeInBytes
	fnBufferDevice
	fnBufferMemory
	fnBufferDelete
	fnBufferIsDeleted
	fnBufferCopyToDevice
	fnBufferToHostBuffer
	fnBufferIsOnCpu
	fnBufferReadyEvent
	fnBufferUnsafePointer
	fnBufferIncreaseExternalReferenceCount
	fnBufferDecreaseExternalReferenceCount
	fnBufferOpaqueDeviceMemoryDataPointer
	fnCopyToDeviceStreamDestroy
	fnCopyToDeviceStreamAddChunk
	fnCopyToDeviceStreamTotalBytes
	fnCopyToDeviceStreamGranuleSize
	fnCopyToDeviceStreamCurrentBytes
	fnTopologyDescriptionCreate
	fnTopologyDescriptionDestroy
	fnTopologyDescriptionPlatformName
	fnTopologyDescriptionPlatformVersion
	fnTopologyDescriptionGetDeviceDescriptions
	fnTopologyDescriptionSerialize
	fnTopologyDescriptionAttributes
	fnCompile
	fnExecutableOutputElementTypes
	fnExecutableOutputDimensions
	fnBufferCopyToMemory
	fnClientCreateViewOfDeviceBuffer
	fnExecutableFingerprint
	fnClientTopologyDescription
	fnExecutableGetCompiledMemoryStats
	fnMemoryKindId
	fnExecuteContextCreate
	fnExecuteContextDestroy
	fnBufferCopyRawToHost
	fnAsyncHostToDeviceTransferManagerDestroy
	fnAsyncHostToDeviceTransferManagerTransferData
	fnClientCreateBuffersForAsyncHostToDevice
	fnAsyncHostToDeviceTransferManagerRetrieveBuffer
	fnAsyncHostToDeviceTransferManagerDevice
	fnAsyncHostToDeviceTransferManagerBufferCount
	fnAsyncHostToDeviceTransferManagerBufferSize
	fnAsyncHostToDeviceTransferManagerSetBufferError
	fnAsyncHostToDeviceTransferManagerAddMetadata
	fnClientDmaMap
	fnClientDmaUnmap
	fnClientCreateUninitializedBuffer
	fnClientUpdateGlobalProcessInfo
	fnTopologyDescriptionDeserialize
	fnClientCreateAliasBuffer
	fnClientFulfillAliasBuffer
	fnLoadedExecutableGetDeviceAssignment
	fnClientCreateErrorBuffer
	fnAsyncHostToDeviceTransferManagerTransferLiteral
	fnBufferCopyRawToHostFuture
	fnDevicePoisonExecution
	fnDeviceCreateAsyncTrackingEvent
	fnAsyncTrackingEventDestroy
	fnExecutableGetCompileOptions
	fnBufferDonateWithControlDependency
	fnEventCreate
	fnEventSet
	fnDeviceGetAttributes
	fnClientLoad
	fnLoadedExecutableAddressableDeviceLogicalIds
	fnBufferBitcast
	fnErrorForEachPayload
	fnTopologyDescriptionFingerprint
	fnExecutableParameterMemoryKinds
	fnDeviceClearMemoryStats
	fnTopologyDescriptionMakeCanonicalShapeForMemorySpace
	fnTopologyDescriptionGetMemorySpaceKindIds
	fnCount
)

// called are the functions that weft calls, by the names that they have in C. A
// plugin must have them all.
var called = map[fn]string{
	fnErrorDestroy:                             "PJRT_Error_Destroy",
	fnErrorMessage:                             "PJRT_Error_Message",
	fnErrorGetCode:                             "PJRT_Error_GetCode",
	fnPluginInitialize:                         "PJRT_Plugin_Initialize",
	fnPluginAttributes:                         "PJRT_Plugin_Attributes",
	fnEventDestroy:                             "PJRT_Event_Destroy",
	fnEventIsReady:                             "PJRT_Event_IsReady",
	fnEventAwait:                               "PJRT_Event_Await",
	fnEventOnReady:                             "PJRT_Event_OnReady",
	fnClientCreate:                             "PJRT_Client_Create",
	fnClientDestroy:                            "PJRT_Client_Destroy",
	fnClientPlatformName:                       "PJRT_Client_PlatformName",
	fnClientPlatformVersion:                    "PJRT_Client_PlatformVersion",
	fnClientDevices:                            "PJRT_Client_Devices",
	fnClientAddressableDevices:                 "PJRT_Client_AddressableDevices",
	fnClientCompile:                            "PJRT_Client_Compile",
	fnClientBufferFromHostBuffer:               "PJRT_Client_BufferFromHostBuffer",
	fnDeviceDescriptionId:                      "PJRT_DeviceDescription_Id",
	fnDeviceDescriptionProcessIndex:            "PJRT_DeviceDescription_ProcessIndex",
	fnDeviceDescriptionAttributes:              "PJRT_DeviceDescription_Attributes",
	fnDeviceDescriptionKind:                    "PJRT_DeviceDescription_Kind",
	fnDeviceGetDescription:                     "PJRT_Device_GetDescription",
	fnExecutableDestroy:                        "PJRT_Executable_Destroy",
	fnExecutableNumOutputs:                     "PJRT_Executable_NumOutputs",
	fnExecutableGetCostAnalysis:                "PJRT_Executable_GetCostAnalysis",
	fnExecutableOptimizedProgram:               "PJRT_Executable_OptimizedProgram",
	fnExecutableSerialize:                      "PJRT_Executable_Serialize",
	fnLoadedExecutableDestroy:                  "PJRT_LoadedExecutable_Destroy",
	fnLoadedExecutableGetExecutable:            "PJRT_LoadedExecutable_GetExecutable",
	fnLoadedExecutableAddressableDevices:       "PJRT_LoadedExecutable_AddressableDevices",
	fnLoadedExecutableExecute:                  "PJRT_LoadedExecutable_Execute",
	fnExecutableDeserializeAndLoad:             "PJRT_Executable_DeserializeAndLoad",
	fnBufferDestroy:                            "PJRT_Buffer_Destroy",
	fnBufferOnDeviceSizeInBytes:                "PJRT_Buffer_OnDeviceSizeInBytes",
	fnBufferToHostBuffer:                       "PJRT_Buffer_ToHostBuffer",
	fnBufferOpaqueDeviceMemoryDataPointer:      "PJRT_Buffer_OpaqueDeviceMemoryDataPointer",
	fnTopologyDescriptionCreate:                "PJRT_TopologyDescription_Create",
	fnTopologyDescriptionDestroy:               "PJRT_TopologyDescription_Destroy",
	fnTopologyDescriptionPlatformVersion:       "PJRT_TopologyDescription_PlatformVersion",
	fnTopologyDescriptionGetDeviceDescriptions: "PJRT_TopologyDescription_GetDeviceDescriptions",
	fnCompile:                                  "PJRT_Compile",
	fnExecutableFingerprint:                    "PJRT_Executable_Fingerprint",
	fnExecutableGetCompiledMemoryStats:         "PJRT_Executable_GetCompiledMemoryStats",
}

// optional are functions that weft calls where a plugin has them.
var optional = map[fn]string{
	fnClientDmaMap:   "PJRT_Client_DmaMap",
	fnClientDmaUnmap: "PJRT_Client_DmaUnmap",
}

// Missing lists, in the order of the table, the functions that weft calls and the
// plugin does not have: its table ends before them, or holds nothing in their place.
func (a *API) Missing() []string {
	var out []string
	for f := fn(0); f < fnCount; f++ {
		if name, ok := called[f]; ok && a.functionAddress(f) == 0 {
			out = append(out, name)
		}
	}
	return out
}

// NeededTableSize is the bytes of a table that reaches every function that weft calls.
func NeededTableSize() int {
	last := fn(0)
	for f := range called {
		last = max(last, f)
	}
	return int(unsafe.Sizeof(header{}) + uintptr(last+1)*slotSize)
}
