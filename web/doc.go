// Package web is the explorer: one page that shows what weft plans, on this
// machine alone, with everything it needs inside the program.
//
// The server answers with the documents of the command line, byte for byte:
//
//	/                the page
//	/api/choices     models, slices and what else a question is made of
//	/api/plan        plan.Document, as weft plan --json
//	/api/explain     plan.Explanation, as weft plan --explain FIGURE --json
//	/api/topo        topology.Document, as weft topo --json
//	/api/split       one plan's tensors and the commands that run it
//	/api/shards      one tensor: who holds which part
//
// A refused request is fault.Doc, as every command's. Parameters are the flags'
// names. What does not come from the page itself is refused: other origins,
// host names that are not this machine's (DNS rebinding), bodies, long queries.
//
// The page in page/ is plain modules, one subject a file, without a build step:
// main.js holds the state, which is the address, and draws it anew when it changes. The page of
// the video service takes base.css, boot.js, dom.js and icon.svg from it.
package web
