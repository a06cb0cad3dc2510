package xla

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"

	"google.golang.org/protobuf/encoding/protowire"

	"weft/dtype"
	"weft/fault"
	"weft/xla/cache"
)

// ArgSpec is one argument or output of a program, on one device.
type ArgSpec struct {
	DType   dtype.DType
	Shape   []int
	Donated bool // the program takes the argument's memory over (tf.aliasing_output)
}

func (a ArgSpec) String() string { return fmt.Sprintf("%v%v", a.DType, a.Shape) }

// CompileOptions say for which devices, and how, a program is compiled.
type CompileOptions struct {
	// Name is what errors call the program.
	Name string
	// Replicas is the number of devices; 0 is 1, or the length of DeviceIDs.
	Replicas int
	// DeviceIDs gives each replica its device; nil is the client's first ones, in order.
	DeviceIDs []int
	// Partitions above 1 hands the program to XLA's own partitioner: one replica
	// in so many partitions, of text on whole tensors with mhlo.sharding on the
	// arguments and results of @main. Args and Outputs must then say what a device
	// holds, which the text does not tell. It is for tests that hold weft's traffic
	// against XLA's.
	Partitions int
	// Shardy has the partitioner read sdy annotations, in place of mhlo.sharding.
	Shardy bool
	// Inspect compiles a program to ask about it, not to run it: of any element
	// types, in any form the plugin reads. Execute refuses it.
	Inspect bool
	// Overrides set XLA debug options, by their proto field name: bool, int, float64 or string.
	// Excess precision is off unless it is set here.
	Overrides map[string]any
	// Args and Outputs are the program's signature. Execute checks against Args.
	Args, Outputs []ArgSpec
	// Cache, when set, is asked first and told after.
	Cache *cache.Cache
}

// excessPrecision lets XLA keep more bits between two ops than the type has. With the
// option off, a bf16 program rounds after each op that says so, on every device.
const excessPrecision = "xla_allow_excess_precision"

// maxReplicas bounds what is sent to a plugin; no slice has more chips.
const maxReplicas = 1 << 16

// checkOptions fills in defaults and refuses options over which a plugin would abort
// the process, or which it would accept in silence and misread: replicas without an
// assignment of devices, an assignment of another length, a device that is assigned
// twice, and a device that does not exist. known are the ids of the devices, and what
// names their owner in errors.
func (o CompileOptions) checkOptions(known []int, what string) (CompileOptions, error) {
	var list fault.List
	bad := func(option, value, format string, args ...any) {
		list.Add(fault.New(ErrCompileOption, CompileOption{option, value}, format, args...))
	}
	if o.Partitions < 0 || o.Partitions > 1 && o.Replicas > 1 {
		bad("partitions", fmt.Sprint(o.Partitions), "%d partitions and %d replicas; a program has several of one or of the other", o.Partitions, o.Replicas)
		return o, list.Err()
	}
	if o.Partitions > 1 {
		o.Replicas = o.Partitions // as many devices; encodeProto writes the two differently
	}
	if o.Replicas == 0 {
		o.Replicas = max(1, len(o.DeviceIDs))
	}
	switch {
	case o.Replicas < 1 || o.Replicas > maxReplicas:
		bad("replicas", fmt.Sprint(o.Replicas), "%d replicas asked for; 1 to %d are possible", o.Replicas, maxReplicas)
		return o, list.Err()
	case o.DeviceIDs == nil && o.Replicas > len(known):
		bad("replicas", fmt.Sprint(o.Replicas), "%d replicas need %d devices; %s has %d", o.Replicas, o.Replicas, what, len(known))
		return o, list.Err()
	case o.DeviceIDs == nil:
		o.DeviceIDs = slices.Clone(known[:o.Replicas])
	default:
		o.DeviceIDs = slices.Clone(o.DeviceIDs)
	}
	if len(o.DeviceIDs) != o.Replicas {
		bad("device_ids", fmt.Sprint(o.DeviceIDs), "%d device ids are given for %d replicas; each replica has one", len(o.DeviceIDs), o.Replicas)
	}
	seen := map[int]bool{}
	for _, id := range o.DeviceIDs {
		if seen[id] {
			bad("device_ids", fmt.Sprint(id), "device %d is assigned twice; each replica has a device of its own", id)
		}
		seen[id] = true
		if !slices.Contains(known, id) {
			bad("device_ids", fmt.Sprint(id), "device %d is not one of %s's: %v", id, what, known)
		}
	}
	for name, v := range o.Overrides {
		if !isName(name) {
			bad(name, fmt.Sprint(v), "the override %q is no option's name; names are those of proto fields: xla_...", name)
		}
		switch x := v.(type) {
		case bool, int, int64, string:
		case float64:
			if math.IsNaN(x) || math.IsInf(x, 0) {
				bad(name, fmt.Sprint(v), "the override %s is %v; a finite number is needed", name, x)
			}
		default:
			bad(name, fmt.Sprint(v), "the override %s has type %T; bool, int, float64 and string are possible", name, v)
		}
	}
	for what, specs := range map[string][]ArgSpec{"argument": o.Args, "output": o.Outputs} {
		for i, a := range specs {
			if _, ok := kinds[a.DType]; !ok {
				bad(what, fmt.Sprint(i), "%s %d has no element type that a device knows: %v", what, i, a)
			} else if _, ok := bytesOf(a.DType, a.Shape); !ok {
				bad(what, fmt.Sprint(i), "%s %d has an impossible shape: %v", what, i, a)
			}
		}
	}
	return o, list.Err()
}

// encodeProto encodes checked options as a CompileOptionsProto. It does so by hand,
// because weft would otherwise have to carry XLA's protos for the 20 bytes that four
// devices need.
//
// debug_options is left out on purpose: a partial one replaces every default with zero.
// Overrides are sent as env_option_overrides instead.
func (o CompileOptions) encodeProto() []byte {
	var list []byte
	for _, id := range o.DeviceIDs {
		list = protowire.AppendVarint(list, uint64(id))
	}
	replicas, partitions := len(o.DeviceIDs), 1
	computations := [][]byte{list} // ComputationDevice.replica_device_ids, packed
	if o.Partitions > 1 {
		replicas, partitions, computations = 1, o.Partitions, nil
		for _, id := range o.DeviceIDs {
			computations = append(computations, protowire.AppendVarint(nil, uint64(id)))
		}
	}
	assignment := appendVarint(nil, 1, uint64(replicas))         // replica_count
	assignment = appendVarint(assignment, 2, uint64(partitions)) // computation_count
	for _, c := range computations {
		assignment = appendMessage(assignment, 3, appendMessage(nil, 1, c))
	}
	build := appendVarint(nil, 4, uint64(replicas)) // num_replicas
	build = appendVarint(build, 5, uint64(partitions))
	if partitions > 1 {
		build = appendVarint(build, 6, 1) // use_spmd_partitioning
	}
	build = appendMessage(build, 9, assignment)
	if partitions > 1 && o.Shardy {
		build = appendVarint(build, 19, 1) // use_shardy_partitioner
	}
	out := appendMessage(nil, 3, build) // executable_build_options

	overrides := map[string]any{excessPrecision: false}
	for k, v := range o.Overrides {
		overrides[k] = v
	}
	names := make([]string, 0, len(overrides))
	for k := range overrides {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, name := range names {
		var v []byte // OptionOverrideProto
		switch x := overrides[name].(type) {
		case string:
			v = appendMessage(nil, 1, []byte(x))
		case bool:
			v = appendVarint(nil, 2, protowire.EncodeBool(x))
		case int:
			v = appendVarint(nil, 3, uint64(x))
		case int64:
			v = appendVarint(nil, 3, uint64(x))
		case float64:
			v = protowire.AppendTag(nil, 4, protowire.Fixed64Type)
			v = binary.LittleEndian.AppendUint64(v, math.Float64bits(x))
		}
		out = appendMessage(out, 7, appendMessage(appendMessage(nil, 1, []byte(name)), 2, v)) // env_option_overrides
	}
	return out
}

// appendVarint appends a varint field of a proto.
func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendMessage appends a field of a proto that holds a message, a string or bytes.
func appendMessage(b []byte, field protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), v)
}
