package mlir

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// gspmdDevices is the number of devices that the value of mhlo.sharding names, in
// XLA's text ("{devices=[2,4]<=[8]}", a tuple of such) or as a binary OpSharding; 0
// where it names none: replicated, manual, or all of it on one device.
func gspmdDevices(value string) int {
	if !strings.HasPrefix(strings.TrimSpace(value), "{") {
		return opShardingDevices([]byte(value), 0)
	}
	most := 0
	for rest := value; ; {
		_, after, ok := strings.Cut(rest, "devices=[")
		if !ok {
			return most
		}
		dims, tail, ok := strings.Cut(after, "]")
		if !ok {
			return 0
		}
		n := 1
		for _, d := range strings.Split(dims, ",") {
			size, err := strconv.Atoi(strings.TrimSpace(d))
			if err != nil || size < 1 || size > maxDevices || n*size > maxDevices {
				return 0
			}
			n *= size
		}
		most, rest = max(most, n), tail
	}
}

// opShardingDevices reads a binary OpSharding: field 3 holds the dims of the tile
// assignment, field 5 the members of a tuple.
func opShardingDevices(b []byte, depth int) int {
	most, n, tiled := 0, 1, false
	multiply := func(size uint64) bool {
		if size < 1 || size > maxDevices || n*int(size) > maxDevices {
			return false
		}
		n, tiled = n*int(size), true
		return true
	}
	for len(b) > 0 {
		field, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return 0
		}
		b = b[k:]
		switch {
		case field == 3 && typ == protowire.VarintType:
			v, k := protowire.ConsumeVarint(b)
			if k < 0 || !multiply(v) {
				return 0
			}
			b = b[k:]
		case typ == protowire.BytesType && (field == 3 || field == 5):
			list, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return 0
			}
			b = b[k:]
			if field == 5 {
				if depth < 4 {
					most = max(most, opShardingDevices(list, depth+1))
				}
				continue
			}
			for len(list) > 0 {
				v, k := protowire.ConsumeVarint(list)
				if k < 0 || !multiply(v) {
					return 0
				}
				list = list[k:]
			}
		default:
			k := protowire.ConsumeFieldValue(field, typ, b)
			if k < 0 {
				return 0
			}
			b = b[k:]
		}
	}
	if tiled {
		most = max(most, n)
	}
	return most
}
