//go:build (linux || darwin) && (amd64 || arm64) && !weft_noxla

package pjrt

import (
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
)

// A plugin of no device gets the options of a client on GPUs as JAX's plugin reads them, each with its
// own type, and its words come back where it refuses.
func TestGPUClientOptionsReachThePlugin(t *testing.T) {
	type table struct {
		header
		slots [fnCount]uintptr
	}
	tab := &table{}
	tab.size = unsafe.Sizeof(*tab)
	var got Named
	refuse := false
	client, failure := new(int), new(int)
	message := []byte("No visible GPU devices")
	tab.slots[fnClientCreate] = purego.NewCallback(func(a *clientCreateArgs) unsafe.Pointer {
		got = decodeNamed(a.options, a.numOptions)
		if refuse {
			return unsafe.Pointer(failure)
		}
		a.client = unsafe.Pointer(client)
		return nil
	})
	destroyed := 0
	tab.slots[fnErrorMessage] = purego.NewCallback(func(a *errorMessageArgs) unsafe.Pointer {
		a.message, a.messageSize = unsafe.Pointer(&message[0]), uintptr(len(message))
		return nil
	})
	tab.slots[fnErrorGetCode] = purego.NewCallback(func(a *errorCodeArgs) unsafe.Pointer {
		a.code = 9
		return nil
	})
	tab.slots[fnErrorDestroy] = purego.NewCallback(func(a *errorArgs) unsafe.Pointer {
		destroyed++
		return nil
	})
	api := FromTable(unsafe.Pointer(tab), "gpus.so")
	options := Named{"preallocate": false, "memory_fraction": float32(0.5), "visible_devices": []int64{0, 1, 2}, "platform_name": "cuda"}
	if _, err := api.NewClient(options); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(options) {
		t.Errorf("the plugin got %v", got)
	}
	refuse = true
	_, err := api.NewClient(options)
	var e *Error
	if !errors.As(err, &e) || e.Message != string(message) || e.Code.String() != "failed precondition" || destroyed != 1 {
		t.Errorf("%v, %d errors were freed", err, destroyed)
	}
}
