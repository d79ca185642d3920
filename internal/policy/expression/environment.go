// Package expression compiles and evaluates the expressions of Signers and of
// policies: one dialect, with the same variables, libraries and limits.
//
// A result depends only on the expression and the view of a request. Only rules of ACME
// endpoints have a variable for the time, and no function looks anything up.
package expression

import (
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/util/version"
	declared "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/names"
)

// Expressions are in the same dialect as those of Kubernetes (in CRDs and
// admission policies), with its libraries: strings, lists, sets, regular
// expressions, URLs, IP addresses, CIDRs.
var costs = &library.CostEstimator{}

// Environment declares the variables that expressions may read. It is safe for concurrent
// use.
type Environment struct {
	env *cel.Env
	// pods is set if pods' variables exist.
	pods bool
	// compiled are the expressions that were compiled last, by compiledKey.
	compiled *lru.Cache
}

// For returns the environment of a Signer's expressions for requests of these
// kinds. Creating one takes milliseconds, so each is created only once.
func For(kinds []v1alpha1.RequestKind) (*Environment, error) {
	if slices.Contains(kinds, v1alpha1.PodCertificateRequests) {
		return podEnvironment()
	}
	return csrEnvironment()
}

// ForPolicies returns the environment of policies' expressions, which has all
// variables: policies are about requests of several kinds.
func ForPolicies() (*Environment, error) { return policyEnvironment() }

var (
	csrEnvironment = sync.OnceValues(func() (*Environment, error) { return extend(false, requestType, requesterType, acmeType) })
	podEnvironment = sync.OnceValues(func() (*Environment, error) {
		return extend(true, requestType, requesterType, podType, serviceAccountType, nodeType, namespaceType, servicesType, acmeType)
	})
	policyEnvironment = sync.OnceValues(func() (*Environment, error) {
		return extend(true, requestType, requesterType, podType, serviceAccountType, policyNodeType, namespaceType, servicesType, certificateType, ownerType, renewsType, acmeType)
	})
)

// ForOrders returns the environment of the rules of ACME endpoints, which are about
// orders: there is no request yet.
func ForOrders() (*Environment, error) { return orderEnvironment() }

var orderEnvironment = sync.OnceValues(func() (*Environment, error) {
	return extend(false, identifiersType, accountType, profileType, nowType)
})

// variable is a variable of expressions.
type variable struct {
	name  string
	value *declared.DeclType
}

func extend(pods bool, variables ...variable) (*Environment, error) {
	options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0), EnvOptions: functions()}
	for _, v := range variables {
		options.EnvOptions = append(options.EnvOptions, cel.Variable(v.name, v.value.CelType()))
		options.DeclTypes = append(options.DeclTypes, v.value)
	}
	base := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	set, err := base.Extend(options, environment.StrictCostOpt)
	if err != nil {
		return nil, err
	}
	env, err := set.Env(environment.NewExpressions)
	return &Environment{env: env, pods: pods, compiled: lru.New(keptExpressions)}, err
}

var (
	text     = declared.StringType
	texts    = declared.NewListType(text, -1)
	textMap  = declared.NewMapType(text, text, -1)
	metaType = object("ObjectMeta", fields{
		"name": text, "namespace": text, "uid": text, "labels": textMap, "annotations": textMap,
	})
	oidValues   = declared.NewListType(object("OIDValue", fields{"oid": text, "value": text}), -1)
	subjectType = object("Subject", fields{
		"commonName": text, "commonNames": texts, "organizations": texts, "organizationalUnits": texts, "countries": texts, "localities": texts,
		"provinces": texts, "streetAddresses": texts, "postalCodes": texts, "serialNumbers": texts, "other": oidValues, "text": text,
		"empty": declared.BoolType,
	})
	// contentFields are the fields of a request's content and of a certificate.
	contentFields = fields{
		"subject": subjectType, "dnsNames": texts, "ipAddresses": texts, "uris": texts, "emailAddresses": texts, "otherNames": oidValues,
		"usages": texts, "isCA": declared.BoolType, "maxPathLength": declared.IntType, "keyType": text, "keyBits": declared.IntType,
		"keyFingerprint": text,
	}

	requestType = variable{"request", object("Request", contentFields.and(fields{
		"kind": text, "name": text, "namespace": text, "uid": text, "time": declared.TimestampType, "origin": text,
		"signer":            object("Signer", fields{"name": text, "kind": text, "namespace": text, "issuer": text}),
		"expirationSeconds": declared.IntType, "annotations": textMap, "labels": textMap, "metadataAnnotations": textMap,
		"extensions":         declared.NewListType(object("Extension", fields{"oid": text, "critical": declared.BoolType, "value": text}), -1),
		"signatureAlgorithm": text,
	}))}
	certificateType = variable{"certificate", object("Certificate", contentFields.and(fields{"lifetimeSeconds": declared.IntType}))}
	requesterType   = variable{"requester", object("Requester", fields{
		"username": text, "uid": text, "groups": texts, "extra": declared.NewMapType(text, texts, -1), "nodeName": text,
		"serviceAccount": object("RequesterServiceAccount", fields{"namespace": text, "name": text}),
	})}
	podType = variable{"pod", object("Pod", fields{
		"metadata": metaType, "spec": declared.DynType,
	})}
	serviceAccountType = variable{"serviceAccount", object("ServiceAccount", fields{"metadata": metaType})}
	nodeType           = variable{"node", object("Node", fields{"metadata": metaType})}
	policyNodeType     = variable{"node", object("PolicyNode", fields{
		"metadata": metaType, "hostnames": texts, "ips": texts, "providerID": text,
		"addresses": declared.NewListType(object("NodeAddress", fields{"type": text, "address": text}), -1),
	})}
	// The name namespace is a reserved word of CEL.
	namespaceType = variable{"namespaceObject", object("Namespace", fields{"metadata": metaType})}
	ownerType     = variable{"owner", object("Owner", fields{"kind": text, "metadata": metaType})}
	renewsType    = variable{"renews", object("Renews", fields{"notAfter": declared.TimestampType, "sameKey": declared.BoolType, "approvedBy": texts})}

	acmeType = variable{"acme", object("ProvenOrder", fields{
		"endpoint": text, "account": text, "externalKey": text,
		"identifiers": declared.NewListType(object("ProvenIdentifier", fields{
			"type": text, "value": text, "wildcard": declared.BoolType, "origin": text, "method": text, "validated": declared.TimestampType,
		}), -1),
	})}

	identifiersType = variable{"identifiers", declared.NewListType(object("Identifier", fields{
		"type": text, "value": text, "wildcard": declared.BoolType,
	}), -1)}
	accountType = variable{"account", object("Account", fields{"id": text, "externalKey": text, "namespace": text, "serviceAccount": text})}
	profileType = variable{"profile", text}
	nowType     = variable{"now", declared.TimestampType}

	servicesType = variable{"services", declared.NewListType(object("Service", fields{
		"name": text, "namespace": text,
	}), -1)}
)

// fields are the fields of an object.
type fields map[string]*declared.DeclType

func (f fields) and(more fields) fields {
	all := fields{}
	for _, some := range []fields{f, more} {
		for name, is := range some {
			all[name] = is
		}
	}
	return all
}

func object(name string, has fields) *declared.DeclType {
	all := make(map[string]*declared.DeclField, len(has))
	for field, is := range has {
		all[field] = declared.NewDeclField(field, is, true, nil, nil)
	}
	return declared.NewObjectType("certplane."+name, all)
}

// functions returns the functions that Kubernetes' libraries lack.
func functions() []cel.EnvOption {
	ofTexts := func(name string, is func(a, b string) bool) cel.EnvOption {
		return cel.Function(name, cel.Overload(name+"_string_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val {
				x, isText := a.Value().(string)
				y, also := b.Value().(string)
				if !isText || !also {
					return types.MaybeNoSuchOverloadErr(a)
				}
				return types.Bool(is(x, y))
			})))
	}
	lists := cel.ListType(cel.StringType)
	return []cel.EnvOption{
		ofTexts("inZone", names.InZone),
		ofTexts("underPattern", names.UnderPattern),
		cel.Function("sameNames", cel.Overload("sameNames_list_list", []*cel.Type{lists, lists}, cel.BoolType, cel.BinaryBinding(sameNames))),
	}
}

func sameNames(a, b ref.Val) ref.Val {
	x, failed := textsOf(a)
	if failed != nil {
		return failed
	}
	y, failed := textsOf(b)
	if failed != nil {
		return failed
	}
	return types.Bool(names.SameNames(x, y))
}

func textsOf(value ref.Val) ([]string, ref.Val) {
	list, isList := value.(traits.Lister)
	if !isList {
		return nil, types.MaybeNoSuchOverloadErr(value)
	}
	var texts []string
	for each := list.Iterator(); each.HasNext() == types.True; {
		one, isText := each.Next().Value().(string)
		if !isText {
			return nil, types.MaybeNoSuchOverloadErr(value)
		}
		texts = append(texts, one)
	}
	return texts, nil
}
