package expression

import (
	"crypto/rsa"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// variables makes the variables of a view when they are first read.
type variables struct {
	view  View
	made  map[string]ref.Val
	ready interpreter.Activation
}

func newVariables(v View) *variables { return &variables{view: v, made: map[string]ref.Val{}} }

// activation returns the variables, with those unknown that are not known yet.
func (v *variables) activation() (interpreter.Activation, error) {
	if v.ready != nil {
		return v.ready, nil
	}
	var unknown []*cel.AttributePatternType
	if p := v.view.Policies; p != nil {
		for name := range p.Unknown {
			root, field, isField := strings.Cut(name, ".")
			pattern := cel.AttributePattern(root)
			if isField {
				pattern = pattern.QualString(field)
			}
			unknown = append(unknown, pattern)
		}
	}
	var err error
	v.ready, err = cel.PartialVars(v, unknown...)
	return v.ready, err
}

// open returns the facts that an unknown value needs.
func (v *variables) open(unknown *types.Unknown) []string {
	var facts []string
	for _, id := range unknown.IDs() {
		trails, _ := unknown.GetAttributeTrails(id)
		for _, trail := range trails {
			for name, fact := range v.view.Policies.Unknown {
				root, _, _ := strings.Cut(name, ".")
				if root == trail.Variable() && !slices.Contains(facts, fact) {
					facts = append(facts, fact)
				}
			}
		}
	}
	slices.Sort(facts)
	return facts
}

// Parent implements interpreter.Activation.
func (v *variables) Parent() interpreter.Activation { return nil }

// ResolveName implements interpreter.Activation. A variable that a request does
// not have is not found; for policies it is empty, so that an expression can ask
// for it: has(node.metadata), owner.?metadata.
func (v *variables) ResolveName(name string) (any, bool) {
	value, made := v.made[name]
	if !made {
		native := v.value(name)
		if native == nil && v.view.Policies != nil {
			native = absent(name)
		}
		if native != nil {
			value = ordered(types.DefaultTypeAdapter.NativeToValue(native))
		}
		v.made[name] = value
	}
	return value, value != nil
}

// absent returns an object without fields, or a list without elements, for a
// variable that a request does not have.
func absent(name string) any {
	switch name {
	case "pod", "serviceAccount", "node", "namespaceObject", "owner", "renews", "acme":
		return map[string]any{}
	case "services":
		return []string{}
	}
	return nil
}

func (v *variables) value(name string) any {
	if v.view.Order != nil {
		return v.view.Order.value(name)
	}
	r := &v.view.Request
	switch name {
	case "request":
		return v.request()
	case "requester":
		return v.requester()
	}
	if policies := v.view.Policies; policies != nil {
		if value, known := policies.value(name, r.Kind); known {
			return value
		}
	}
	if name == "acme" { // of other requests it is empty, so that an expression can ask for it
		if order := orderVariable(r.Order); order != nil {
			return order
		}
		return absent(name)
	}
	if r.Kind != v1alpha1.PodCertificateRequests {
		return nil
	}
	switch name {
	case "pod":
		return podVariable(r.Pod, v.view.PodSpec)
	case "serviceAccount":
		return withMetadata(r.ServiceAccount)
	case "node":
		return withMetadata(r.Node)
	case "namespaceObject":
		return withMetadata(r.NamespaceObject)
	case "services":
		return servicesVariable(r.Services)
	}
	return nil
}

// value returns a variable of policies. known is false for variables that Signers share.
func (p *PolicyView) value(name string, kind v1alpha1.RequestKind) (value any, known bool) {
	switch name {
	case "certificate":
		all := p.Certificate.variable()
		if p.Certificate.Lifetime != nil {
			all["lifetimeSeconds"] = int64(p.Certificate.Lifetime.Seconds())
		}
		return all, true
	case "owner":
		owner := withMetadata(p.Owner)
		if owner != nil {
			owner.(map[string]any)["kind"] = "Certificate"
		}
		return owner, true
	case "renews":
		return p.Renews.variable(), true
	case "acme":
		return orderVariable(p.Order), true
	case "namespaceObject":
		return withMetadata(p.Namespace), p.Namespace != nil || kind != v1alpha1.PodCertificateRequests
	case "node":
		return nodeVariable(p.Node), p.Node != nil || kind != v1alpha1.PodCertificateRequests
	}
	return nil, false
}

func (o *OrderView) value(name string) any {
	switch name {
	case "identifiers":
		list := make([]map[string]any, len(o.Identifiers))
		for i, id := range o.Identifiers {
			list[i] = map[string]any{"type": id.Type, "value": id.Value, "wildcard": id.Wildcard}
		}
		return list
	case "account":
		return map[string]any{"id": o.Account, "externalKey": o.ExternalKey, "namespace": o.Namespace, "serviceAccount": o.ServiceAccount}
	case "profile":
		return o.Profile
	case "now":
		return o.Now
	}
	return nil
}

// orderVariable returns nil for nil.
func orderVariable(o *v1alpha1.ProvenOrder) any {
	if o == nil {
		return nil
	}
	identifiers := make([]map[string]any, len(o.Identifiers))
	for i, id := range o.Identifiers {
		identifiers[i] = map[string]any{
			"type": id.Type, "value": id.Value, "wildcard": id.Wildcard, "origin": string(id.Origin), "method": id.Method,
		}
		if id.Validated != nil {
			identifiers[i]["validated"] = id.Validated.Time
		}
	}
	return map[string]any{"endpoint": o.Endpoint, "account": o.Account, "externalKey": o.ExternalKey, "identifiers": identifiers}
}

// variable returns nil for nil.
func (r *Renewed) variable() any {
	if r == nil {
		return nil
	}
	return map[string]any{"notAfter": r.NotAfter, "sameKey": r.SameKey, "approvedBy": list(r.ApprovedBy)}
}

// request omits the fields that are not requested.
func (v *variables) request() map[string]any {
	r := &v.view.Request
	content := RequestContent(r)
	all := content.variable()
	for name, value := range map[string]any{
		"kind": string(r.Kind), "name": r.Name, "namespace": r.Namespace, "uid": r.UID, "time": r.Created,
		"annotations": mapOf(r.Annotations), "labels": mapOf(r.Labels), "metadataAnnotations": mapOf(r.ObjectAnnotations),
		"signer": v.signer(), "extensions": extensionsVariable(r.PKCS10), "signatureAlgorithm": "",
	} {
		all[name] = value
	}
	if r.PKCS10 != nil {
		all["signatureAlgorithm"] = r.PKCS10.SignatureAlgorithm.String()
	}
	if duration := requestedDuration(r); duration != nil {
		all["expirationSeconds"] = int64(duration.Seconds())
	}
	if v.view.Policies != nil && v.view.Policies.Origin != "" {
		all["origin"] = v.view.Policies.Origin
	}
	return all
}

// requestedDuration returns the lifetime that a request names. Requests for
// issuers can have it in an annotation.
func requestedDuration(r *request.Request) *time.Duration {
	if r.Issuer != nil {
		if terms, err := r.Terms(); err == nil {
			return terms.Duration
		}
	}
	return r.Duration
}

func (v *variables) signer() map[string]any {
	r := &v.view.Request
	signer := map[string]any{"name": r.SignerName}
	if v.view.Policies != nil {
		signer["name"] = v.view.Policies.SignerName
	}
	if i := r.Issuer; i != nil {
		signer["kind"], signer["namespace"], signer["issuer"] = i.Kind, i.Namespace, i.Name
	}
	return signer
}

func extensionsVariable(asked *pki.Request) []map[string]any {
	list := []map[string]any{}
	if asked == nil {
		return list
	}
	for _, e := range asked.Extensions {
		list = append(list, map[string]any{"oid": e.Id.String(), "critical": e.Critical, "value": base64.StdEncoding.EncodeToString(e.Value)})
	}
	return list
}

// variable returns the fields that requests and certificates share.
func (c *Content) variable() map[string]any {
	all := map[string]any{
		"subject": c.subject(), "dnsNames": list(c.DNSNames), "ipAddresses": list(c.IPAddresses), "uris": list(c.URIs),
		"emailAddresses": list(c.EmailAddresses), "otherNames": otherNamesVariable(c.OtherNames), "usages": list(c.Usages), "isCA": c.IsCA,
		"keyType": pki.KubernetesKeyType(c.Key), "keyBits": int64(keyBits(c)), "keyFingerprint": fingerprint(c),
	}
	if c.PathLength != nil {
		all["maxPathLength"] = int64(*c.PathLength)
	}
	return all
}

func (c *Content) subject() map[string]any {
	values := map[string][]string{}
	other := []map[string]string{}
	for _, a := range c.Subject {
		if field, named := attributeFields[a.OID]; named {
			values[field] = append(values[field], a.Value)
			continue
		}
		other = append(other, map[string]string{"oid": a.OID, "value": a.Value})
	}
	subject := map[string]any{"commonName": "", "text": c.SubjectText, "empty": len(c.Subject) == 0, "other": other}
	for _, field := range attributeFields {
		subject[field] = list(values[field])
	}
	if names := values["commonNames"]; len(names) > 0 {
		subject["commonName"] = names[len(names)-1] // as the standard library reads it
	}
	return subject
}

func otherNamesVariable(names []pki.OtherName) []map[string]string {
	list := []map[string]string{}
	for _, name := range names {
		list = append(list, map[string]string{"oid": name.Type.String(), "value": name.Value})
	}
	return list
}

// keyBits returns the size of an RSA key in bits, and zero for other keys.
func keyBits(c *Content) int {
	if key, isRSA := c.Key.(*rsa.PublicKey); isRSA && key.N != nil {
		return key.N.BitLen()
	}
	return 0
}

func fingerprint(c *Content) string {
	if c.Key == nil {
		return ""
	}
	return pki.KeyFingerprint(c.Key)
}

func (v *variables) requester() map[string]any {
	who := v.view.Requester
	extra := make(map[string][]string, len(who.Extra))
	for key, values := range who.Extra {
		extra[key] = list(values)
	}
	all := map[string]any{"username": who.Username, "uid": who.UID, "groups": list(who.Groups), "extra": extra}
	if namespace, name, err := serviceaccount.SplitUsername(who.Username); err == nil {
		all["serviceAccount"] = map[string]any{"namespace": namespace, "name": name}
	}
	if node, isNode := strings.CutPrefix(who.Username, nodeid.UserPrefix); isNode {
		all["nodeName"] = node
	}
	return all
}

func podVariable(pod *corev1.Pod, withSpec bool) any {
	if pod == nil {
		return nil
	}
	all := map[string]any{"metadata": metadata(&pod.ObjectMeta)}
	if !withSpec {
		return all
	}
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	if err != nil {
		return types.NewErr("reading the pod: %v", err)
	}
	all["spec"] = spec
	return all
}

func nodeVariable(node *corev1.Node) any {
	if node == nil {
		return nil
	}
	hostnames, ips, all := []string{}, []string{}, []map[string]string{}
	for _, a := range node.Status.Addresses {
		all = append(all, map[string]string{"type": string(a.Type), "address": a.Address})
		switch a.Type {
		case corev1.NodeInternalIP, corev1.NodeExternalIP:
			ips = append(ips, a.Address)
		default:
			hostnames = append(hostnames, a.Address)
		}
	}
	return map[string]any{
		"metadata": metadata(&node.ObjectMeta), "hostnames": hostnames, "ips": ips, "addresses": all, "providerID": node.Spec.ProviderID,
	}
}

func servicesVariable(of []request.ServiceName) []map[string]string {
	services := make([]map[string]string, len(of))
	for i, s := range of {
		services[i] = map[string]string{"name": s.Name, "namespace": s.Namespace}
	}
	return services
}

func withMetadata(m *metav1.ObjectMeta) any {
	if m == nil {
		return nil
	}
	return map[string]any{"metadata": metadata(m)}
}

func metadata(m *metav1.ObjectMeta) map[string]any {
	return map[string]any{
		"name": m.Name, "namespace": m.Namespace, "uid": string(m.UID), "labels": mapOf(m.Labels), "annotations": mapOf(m.Annotations),
	}
}

// list and mapOf convert nil to empty values, so that expressions need not
// check for existence.
func list(values []string) []string {
	if values == nil {
		return []string{}
	}
	return values
}

func mapOf(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
