// Command pulumi-resource-kubernetes is Pulumi's provider for Kubernetes, built from its module: the module's own
// command embeds files that its releases generate and that are not in it.
package main

import (
	_ "embed"

	"github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"
)

//go:generate sh -c "install -m 644 $(go list -m -f {{.Dir}} github.com/pulumi/pulumi-kubernetes/provider/v4)/cmd/pulumi-resource-kubernetes/*.json ."

//go:embed schema.json
var schema []byte

//go:embed terraform-mapping.json
var terraformMapping []byte

// version is set by the linker.
var version string

func main() {
	provider.Serve("kubernetes", version, schema, terraformMapping)
}
