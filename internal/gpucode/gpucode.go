// Package gpucode compiles attention's GPU kernels alone for GPUs that are absent, and reads
// what became of them: registers, spills and memory. Tests and measurements ask it.
package gpucode

import (
	"context"
	"fmt"
	"strings"

	"weft/attention/triton"
	"weft/internal/cubin"
	"weft/xla"
)

// Code is what the compilers made of one kernel.
type Code struct {
	cubin.Kernel
	Temp       int64   // bytes of device memory beside operands and results
	Serialized int     // bytes of the whole executable
	Seconds    float64 // to compile
	Image      []byte  // the object file, and what lies behind it
}

func tensorType(p triton.Param) string {
	var s strings.Builder
	for _, d := range p.Shape {
		fmt.Fprintf(&s, "%dx", d)
	}
	return "tensor<" + s.String() + p.DType.String() + ">"
}

// Program is a program in StableHLO that is one call of a kernel. The caller has made sure that
// the kernel's Check finds nothing wrong.
func Program(k triton.Kernel) string {
	var params, names, types, results, layouts, out []string
	layout := func(p triton.Param) string {
		dims := make([]string, len(p.Shape))
		for i := range dims {
			dims[i] = fmt.Sprint(len(dims) - 1 - i)
		}
		return fmt.Sprintf("dense<[%s]> : tensor<%dxindex>", strings.Join(dims, ", "), len(dims))
	}
	for _, p := range k.Operands() {
		params = append(params, "%"+p.Name+": "+tensorType(p))
		names, types, layouts = append(names, "%"+p.Name), append(types, tensorType(p)), append(layouts, layout(p))
	}
	var made []string
	for i, p := range k.Results() {
		results, out = append(results, tensorType(p)), append(out, layout(p))
		made = append(made, fmt.Sprintf("%%r#%d", i))
	}
	call, returns := fmt.Sprintf("%%r:%d", len(results)), "("+strings.Join(results, ", ")+")"
	if len(results) == 1 {
		call, made = "%r", []string{"%r"}
	}
	return fmt.Sprintf(`func.func @main(%s) -> %s {
  %s = stablehlo.custom_call @%s(%s) {api_version = 4 : i32, backend_config = {%s}, operand_layouts = [%s], result_layouts = [%s]} : (%s) -> %s
  return %s : %s
}`, strings.Join(params, ", "), returns, call, triton.Call, strings.Join(names, ", "), k.Config(), strings.Join(layouts, ", "), strings.Join(out, ", "),
		strings.Join(types, ", "), returns, strings.Join(made, ", "), strings.Join(results, ", "))
}

// Compile compiles a kernel for a topology of GPUs. Errors: the kernel's Check, those of
// xla.Topology.Compile, and an executable without the kernel's object file.
func Compile(ctx context.Context, on *xla.Topology, k triton.Kernel) (Code, error) {
	if err := k.Check(); err != nil {
		return Code{}, err
	}
	x, err := on.Compile(ctx, []byte(Program(k)), xla.CompileOptions{Name: k.Name(), Inspect: true})
	if err != nil {
		return Code{}, err
	}
	defer x.Close()
	memory, err := x.Memory()
	if err != nil {
		return Code{}, err
	}
	data, err := x.Serialize()
	if err != nil {
		return Code{}, err
	}
	c := Code{Temp: memory.Temp, Serialized: len(data), Seconds: x.Seconds}
	images, err := cubin.Images(data)
	if err != nil {
		return c, err
	}
	for _, image := range images {
		kernels, err := cubin.Read(image)
		if err != nil {
			return c, err
		}
		for _, found := range kernels {
			if strings.HasPrefix(found.Name, k.Name()) || len(kernels) == 1 {
				c.Kernel, c.Image = found, image
				return c, nil
			}
		}
	}
	return c, fmt.Errorf("the executable of %s, of %d bytes, holds no object file with it", k.Name(), len(data))
}
