package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/cluster"
)

// unsupported are the settings that the chart does not take: it has separate values for
// them, or objects other than the configuration depend on them. "certplane manifests
// --config" takes all of them.
var unsupported = []string{
	"acmeServer",
	"apiVersion",
	"clientConnection.kubeconfig",
	"controllers",
	"health",
	"kind",
	"leaderElection.resourceName",
	"leaderElection.resourceNamespace",
	"metrics.bindAddress",
	"namespace",
	"policy.certificateRequestPolicies",
	"policy.checkIssued",
	"revocation.listen",
	"revocation.webhook",
	"signing.webhooks",
	"trustManager.secretTargets",
	"trustManager.targetNamespaces",
	"trustManager.trustNamespace",
	"useServiceAccountCredentials",
	"webhook.bindAddress",
	"webhook.clientCIDRs",
	"webhook.serve",
}

// schema is a JSON schema.
type schema map[string]any

// The patterns of quantities. Other ways to write them are refused, because templates
// compare and multiply them.
const (
	cpuPattern    = `^([0-9]+m?|[0-9]+\.[0-9]{1,3})$`
	memoryPattern = `^[0-9]+(Ki|Mi|Gi|Ti|k|M|G|T)?$`
)

// valuesSchema returns the schema of the values of the chart.
func valuesSchema() (string, error) {
	controllers := []string{"*"}
	for _, name := range rights.Choices() {
		controllers = append(controllers, name, "-"+name)
	}
	configuration := settings(reflect.TypeFor[cluster.Config](), "")
	configuration["description"] = "Settings of ControllersConfiguration."
	quantities := objectOf(map[string]any{
		"cpu":    schema{"type": []string{"string", "number"}, "pattern": cpuPattern, "minimum": 0, "description": "A number of cores, such as 1 or 50m. 0 for none."},
		"memory": schema{"type": []string{"string", "integer"}, "pattern": memoryPattern, "minimum": 0, "description": "A whole number of bytes, such as 64Mi. 0 for none."},
	})
	values := objectOf(map[string]any{
		"image":    schema{"type": "string", "pattern": `^\S*$`},
		"replicas": schema{"type": "integer", "minimum": 1},
		"namespace": objectOf(map[string]any{
			"name":   schema{"type": "string", "pattern": "^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"},
			"create": schema{"type": "boolean"},
		}),
		"resources":   objectOf(map[string]any{"requests": quantities, "limits": quantities}),
		"controllers": schema{"type": "array", "minItems": 1, "items": schema{"enum": controllers}},
		"crds":        objectOf(map[string]any{"install": schema{"type": "boolean"}, "keep": schema{"type": "boolean"}}),
		"config":      configuration,
		"global":      schema{"type": "object", "description": "What Helm gives to charts that are part of another one."},
	})
	values["$schema"] = "http://json-schema.org/draft-07/schema#"
	values["$comment"] = "Made by hack/generate.sh."
	text, err := json.MarshalIndent(values, "", "  ")
	return string(text) + "\n", err
}

func objectOf(properties map[string]any) schema {
	return schema{"type": "object", "additionalProperties": false, "properties": properties}
}

// settings returns the schema of a part of the configuration. path is the path of the part,
// followed by a dot.
func settings(t reflect.Type, path string) schema {
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return schema{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`}
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return schema{} // its UnmarshalJSON validates it
	}
	switch t.Kind() {
	case reflect.Pointer:
		return settings(t.Elem(), path)
	case reflect.Struct:
		properties := map[string]any{}
		addFields(properties, t, path)
		return objectOf(properties)
	case reflect.Slice:
		return schema{"type": "array", "items": settings(t.Elem(), path)}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": settings(t.Elem(), path)}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint16:
		return schema{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return schema{"type": "number"}
	default:
		panic(fmt.Sprintf("%s has the type %s, which the schema does not know", path, t))
	}
}

func addFields(properties map[string]any, t reflect.Type, path string) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && name == "":
			addFields(properties, field.Type, path)
		case name == "-" || name == "" || slices.Contains(unsupported, path+name):
		default:
			properties[name] = settings(field.Type, path+name+".")
		}
	}
}
