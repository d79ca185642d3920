package profile

import (
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	declared "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Expressions are in the same dialect as those of Kubernetes (in CRDs and
// admission policies), with its libraries: strings, lists, sets, regular
// expressions, URLs, IP addresses, CIDRs.
var costs = &library.CostEstimator{}

// environmentFor returns the environment of expressions for requests of these
// kinds. Creating one takes milliseconds, so each is created only once.
func environmentFor(kinds []v1alpha1.RequestKind) (*cel.Env, error) {
	if slices.Contains(kinds, v1alpha1.PodCertificateRequests) {
		return podEnvironment()
	}
	return csrEnvironment()
}

var (
	csrEnvironment = sync.OnceValues(func() (*cel.Env, error) { return extend(requestType, requesterType) })
	podEnvironment = sync.OnceValues(func() (*cel.Env, error) {
		return extend(requestType, requesterType, podType, serviceAccountType, nodeType, namespaceType, servicesType)
	})
)

// variable is a variable of expressions.
type variable struct {
	name  string
	value *declared.DeclType
}

func extend(variables ...variable) (*cel.Env, error) {
	options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
	for _, v := range variables {
		options.EnvOptions = append(options.EnvOptions, cel.Variable(v.name, v.value.CelType()))
		options.DeclTypes = append(options.DeclTypes, v.value)
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(options, environment.StrictCostOpt)
	if err != nil {
		return nil, err
	}
	return set.Env(environment.NewExpressions)
}

var (
	text     = declared.StringType
	texts    = declared.NewListType(text, -1)
	textMap  = declared.NewMapType(text, text, -1)
	metaType = object("ObjectMeta", map[string]*declared.DeclType{
		"name": text, "namespace": text, "uid": text, "labels": textMap, "annotations": textMap,
	})

	requestType = variable{"request", object("Request", map[string]*declared.DeclType{
		"kind": text, "name": text, "namespace": text, "uid": text,
		"subject": object("Subject", map[string]*declared.DeclType{
			"commonName": text, "organizations": texts, "organizationalUnits": texts, "text": text,
		}),
		"dnsNames": texts, "ipAddresses": texts, "uris": texts, "emailAddresses": texts,
		"usages": texts, "keyType": text, "expirationSeconds": declared.IntType, "annotations": textMap,
	})}
	requesterType = variable{"requester", object("Requester", map[string]*declared.DeclType{
		"username": text, "uid": text, "groups": texts, "extra": declared.NewMapType(text, texts, -1),
	})}
	podType = variable{"pod", object("Pod", map[string]*declared.DeclType{
		"metadata": metaType, "spec": declared.DynType,
	})}
	serviceAccountType = variable{"serviceAccount", object("ServiceAccount", map[string]*declared.DeclType{"metadata": metaType})}
	nodeType           = variable{"node", object("Node", map[string]*declared.DeclType{"metadata": metaType})}
	// The name namespace is a reserved word of CEL.
	namespaceType = variable{"namespaceObject", object("Namespace", map[string]*declared.DeclType{"metadata": metaType})}
	servicesType  = variable{"services", declared.NewListType(object("Service", map[string]*declared.DeclType{
		"name": text, "namespace": text,
	}), -1)}
)

func object(name string, fields map[string]*declared.DeclType) *declared.DeclType {
	all := make(map[string]*declared.DeclField, len(fields))
	for field, is := range fields {
		all[field] = declared.NewDeclField(field, is, true, nil, nil)
	}
	return declared.NewObjectType("certplane."+name, all)
}
