// Package strategy says how a training or inference job is cut over a mesh: data
// parallel, FSDP, tensor parallel, pipeline, and all of them together.
//
// A [Strategy] refines a [sharding.Spec]. Given a mesh, a tensor (with its name,
// dim names, sizes and element size) and the spec so far, it returns the spec
// with its own axes added, and a [Note] for everything it did not do. A [Plan] is
// a list of strategies and is itself one, so that no routine to resolve conflicts
// exists: who comes first is decided by what each strategy can give way on.
//
//	tensor parallel   first: the dim is fixed by the contraction
//	FSDP              then: pure storage, so it takes the next dim
//	data parallel     last: only the batch dim, where it joins FSDP's axes
//
// Among strategies of one kind the order of the plan decides. On mesh
// data=2,fsdp=4,model=8 the weight blocks.3.attn.q.weight of shape (11008,4096)
// comes out as [model,fsdp]: local shape (1376,1024).
//
// The rest of the package follows from specs. [Plan.Gradient] tells how a
// gradient is laid out before and after its reduction, and with which collectives
// in between. [Plan.Gather] tells what brings a parameter from where it is stored
// to where it is computed with. [Plan.Explain] lists every tensor with its local
// bytes and what was not applied to it, and why.
//
// A pipeline is not a Strategy: it cuts layers, not tensors. [Even] and [Balanced]
// assign layers to stages; [Schedule] lists what each stage runs, in order;
// [Simulate] runs such a list on a clock; [Sends] gives the device pairs and bytes
// between stages. A parameter's spec inside its stage is the ordinary one, on the
// stage's own mesh (mesh.Sub).
//
// # What runs and what explains
//
// Three parts of the package are in every step that weft runs:
//
//   - The names of dims ([DimName]) and the one table that maps them to axes. Models write the
//     rules of their weights and the specs of their values with [SpecOf], [ColumnParallel] and
//     [RowParallel], and check their sizes by [Axes].
//   - [FSDP]. models.Share refines the weights' specs with it, for the time at rest.
//   - [Even]. The stages of a pipeline get their layers from it.
//
// The rest explains and compares: weft strategy prints it, and training needs it. For a model
// of weft these are the differences:
//
//   - A model has rules of its own for its weights. A transformer's split every matrix that
//     [TensorParallel] splits by [DefaultRules], over the same dim, and they split more (a test
//     of models/all compares them).
//   - [DataParallel] splits a batch over fsdp too, as in training. Models split it over dp alone.
//   - Stages of a running pipeline take microbatches in turn, forward only. [Schedule] with
//     backward steps and [Balanced] stages are not run.
//
// # Dim names
//
// Strategies and models speak of dims by name. [DataParallel] splits "batch", [TensorParallel]
// what its rules say, where "out" and "in" are the features of a linear layer, whatever their
// order in memory, and hold what [DimName] calls heads, ffn, vocab or width. "out_features" and
// "in_features" are read as "out" and "in", "sequence" as "tokens". A dim name that no strategy
// speaks of is passed over, "Batch" and "b" too.
//
// # Axis names
//
// The axes are pp, dp, fsdp, sp and tp. A strategy finds its axis under either
// spelling (dp or data, tp or model, sp or context, pp or pipeline), and the spec
// names it as the mesh does.
//
// # Names in artifex and here
//
// artifex is avitai/artifex, modules generative_models.scaling.sharding and
// mesh_utils, at 0.1.2.
//
//	ShardingConfig and its fields            Degrees; fsdp_enabled is Shard > 1,
//	                                         fsdp_min_weight_size is FSDP.MinSize
//	get_total_device_count                   Degrees.Devices
//	from_device_count                        Degrees{Shard: Fill}.Resolve
//	ParallelismConfig                        *mesh.Mesh, from Degrees.Mesh
//	from_sharding_config                     Degrees.Mesh
//	is_valid, validate_mesh_config           errors of Degrees.Resolve, Degrees.CheckMesh,
//	                                         mesh.New
//	ShardingStrategy                         Strategy
//	get_partition_spec (five)                Strategy.Refine
//	apply_sharding (five)                    sharding.Spec.Ranges, .Shardy and .HLO
//	get_sharding_constraints                 Degrees.CheckWorkload, sharding.Spec.Check
//	__init__ (five)                          struct literals
//	DataParallelStrategy                     DataParallel
//	FSDPStrategy                             FSDP
//	should_shard_weight                      FSDP.Refine, whose Note says "small"
//	get_gradient_partition_spec              Plan.Gradient
//	TensorParallelStrategy                   TensorParallel
//	get_linear_weight_spec                   Rule{Match, "out"} or Rule{Match, "in"}
//	get_attention_qkv_spec                   Rule{Match, "out"}, or "heads" of a fused view
//	get_attention_output_spec                Rule{Match, "in"}
//	PipelineParallelStrategy                 Even, Balanced, Schedule
//	assign_layers_to_stages                  Even, Stages.Counts
//	get_forward_communication_pattern        Sends, mesh.Pairs(axis, +1, false)
//	get_backward_communication_pattern       Sends, mesh.Pairs(axis, -1, false)
//	MultiDimensionalStrategy                 Plan
//	get_combined_partition_spec              Plan.Refine
//	resolve_sharding_conflicts, its helper   Plan.Refine
//	_validate_strategies                     the error of Plan.Refine: ErrDuplicateAxis
//	create_partition_spec                    Stages.Of
//	DeviceMeshManager, create_mesh,          mesh.New, mesh.Local
//	create_device_mesh
//	create_mesh_from_config                  Degrees.Mesh
//	get_optimal_mesh_shape (both),           none: a mesh is chosen for a model, by its
//	optimize_for_transformer                 memory and time, and not for a size's name
package strategy
