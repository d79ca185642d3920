package adopt

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/cli/print"
)

const (
	topicDefinitions = "Definitions"
	topicIssuers     = "Issuers"
	topicUse         = "In use"
	topicWork        = "At work now"
)

var definitionKind = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}

func kindOf(group, kind string) schema.GroupKind { return schema.GroupKind{Group: group, Kind: kind} }

// definitions checks the definitions of the program: certplane serves one version of each.
func (m *mover) definitions(ctx context.Context, p *Plan) error {
	all, err := m.list(ctx, p, topicDefinitions, definitionKind)
	found := 0
	for _, d := range all {
		if group, _, _ := unstructured.NestedString(d.Object, "spec", "group"); !slices.Contains(m.groups, group) {
			continue
		}
		found++
		stored, _, _ := unstructured.NestedStringSlice(d.Object, "status", "storedVersions")
		wanted := "v1"
		if m.webhookFirst {
			wanted = "v1alpha1"
		}
		if len(stored) != 1 || stored[0] != wanted {
			p.fail(topicDefinitions, fmt.Sprintf("objects of %s are stored in the versions %s", d.GetName(), strings.Join(stored, ", ")), "Run cmctl upgrade migrate-api-version first.")
		}
		if d.GetDeletionTimestamp() != nil {
			p.fail(topicDefinitions, fmt.Sprintf("the definition %s is being deleted", d.GetName()))
		}
	}
	p.ok(topicDefinitions, "%s exist, and stay", print.Number(found, "definition"))
	return err
}

// usage looks at issuers, who approves, and kinds that only some clusters use.
func (m *mover) usage(ctx context.Context, p *Plan) error {
	if m.webhookFirst {
		return m.uncovered(ctx, p, kindOf("trust.cert-manager.io", "ClusterBundle"))
	}
	types, outside := map[string]int{}, map[string]int{}
	for _, kind := range []string{cmv1.IssuerKind, cmv1.ClusterIssuerKind} {
		issuers, err := m.list(ctx, p, topicIssuers, kindOf(certmanager.Group, kind))
		if err != nil {
			return err
		}
		for _, issuer := range issuers {
			spec, _ := issuer.Object["spec"].(map[string]any)
			for _, name := range []string{"acme", "ca", "selfSigned", "vault", "venafi"} {
				if spec[name] != nil {
					types[name]++
				}
			}
			if spec["venafi"] != nil {
				p.fail(topicIssuers, fmt.Sprintf("%s %s is of the type Venafi", kind, nameOf(&issuer)), "Only a separate build of certplane has it: see docs/venafi.md.")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		if name != "venafi" {
			p.ok(topicIssuers, "%s of the type %s", print.Number(types[name], "issuer"), name)
		}
	}
	crts, err := m.certificates(ctx, p)
	if err != nil {
		return err
	}
	var unset []string
	for _, crt := range crts {
		if group := certmanager.IssuerGroup(crt.Spec.IssuerRef); group != certmanager.Group {
			outside[group]++
		}
		if key := crt.Spec.PrivateKey; key == nil || key.RotationPolicy == "" {
			if crt.Spec.IsCA {
				unset = append([]string{nameOf(crt) + " (a CA)"}, unset...)
			} else {
				unset = append(unset, nameOf(crt))
			}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(outside)) {
		p.ok(topicIssuers, "%s of issuers of %s: their program goes on, it watches requests", print.Number(outside[group], "Certificate"), group)
	}
	if len(unset) > 0 && m.keptKeys(p) {
		names := unset[:min(most, len(unset))]
		p.warn(topicCertificates, fmt.Sprintf("%s set no rotationPolicy: this cert-manager keeps their keys at renewal, certplane makes new ones: %s", print.Number(len(unset), "Certificate"), strings.Join(names, ", ")),
			"Set spec.privateKey.rotationPolicy: Never on those whose key is pinned, such as CAs.")
	}
	if err := m.approval(ctx, p); err != nil {
		return err
	}
	return m.uncovered(ctx, p, kindOf("gateway.networking.x-k8s.io", "XListenerSet"))
}

// keptKeys reports whether the program keeps keys by default: versions before 1.18 do.
func (m *mover) keptKeys(p *Plan) bool {
	controller := p.part("controller")
	return strings.Contains(controller.value("feature-gates", ""), "DefaultPrivateKeyRotationPolicyAlways=false") || older(versionOf(controller), "1.18.0")
}

// uncovered reports objects of a kind that certplane does not serve.
func (m *mover) uncovered(ctx context.Context, p *Plan, kind schema.GroupKind) error {
	found, err := m.list(ctx, p, topicUse, kind)
	if len(found) > 0 {
		p.fail(topicUse, fmt.Sprintf("the cluster has %s, which certplane does not read", print.Number(len(found), kind.Kind)))
	}
	return err
}

// approval keeps who approves: the approver is left out if cert-manager's is switched off.
func (m *mover) approval(ctx context.Context, p *Plan) error {
	leases, err := listAs[coordinationv1.Lease](ctx, m, p, topicUse, kindOf("coordination.k8s.io", "Lease"))
	chosen, _ := p.Configuration["controllers"].([]any)
	off := slices.Contains(chosen, any("-certificaterequests-approver"))
	for _, lease := range leases {
		if lease.Name == "policy.cert-manager.io" {
			p.ok(topicUse, "approver-policy works here (lease %s): it goes on", nameOf(lease))
			if !off {
				p.warn(topicUse, "cert-manager also approves all requests, in addition to approver-policy: so does certplane", "Switch it off with disableAutoApproval if that is not intended.")
			}
		}
	}
	if off {
		p.ok(topicUse, "cert-manager approves no requests, and neither does certplane")
	}
	return err
}

// atWork names what the program is doing: the move is safe with it, but calmer without.
func (m *mover) atWork(ctx context.Context, p *Plan) error {
	if m.webhookFirst {
		return nil
	}
	crts, err := m.certificates(ctx, p)
	if err != nil {
		return err
	}
	var issuing, open []string
	for _, crt := range crts {
		if certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) {
			issuing = append(issuing, nameOf(crt))
		}
	}
	for _, kind := range []string{acmev1.OrderKind, acmev1.ChallengeKind} {
		found, err := m.list(ctx, p, topicWork, kindOf(acmev1.SchemeGroupVersion.Group, kind))
		if err != nil {
			return err
		}
		for _, o := range found {
			switch state, _, _ := unstructured.NestedString(o.Object, "status", "state"); acmev1.State(state) {
			case acmev1.Valid, acmev1.Invalid, acmev1.Expired, acmev1.Errored:
			default:
				open = append(open, kind+" "+nameOf(&o))
			}
		}
	}
	for text, names := range map[string][]string{"Certificates being issued": issuing, "open": open} {
		if len(names) > 0 {
			p.warn(topicWork, fmt.Sprintf("%s: %s", text, some(names)), "certplane finishes them. It is calmer to wait.")
		}
	}
	if len(issuing)+len(open) == 0 {
		p.ok(topicWork, "no certificate is being issued")
	}
	return nil
}

// certificates returns all Certificates, which are read once.
func (m *mover) certificates(ctx context.Context, p *Plan) (all []*cmv1.Certificate, err error) {
	if p.crts == nil {
		p.crts, err = listAs[cmv1.Certificate](ctx, m, p, topicCertificates, kindOf(certmanager.Group, cmv1.CertificateKind))
	}
	return p.crts, err
}

// disabled names namespaces whose objects cert-manager does not validate.
func (m *mover) disabled(ctx context.Context, p *Plan) error {
	all := &corev1.NamespaceList{}
	if skip, err := p.unread(topicUse, "namespaces", m.api.List(ctx, all)); err != nil || skip {
		return err
	}
	var names []string
	for i := range all.Items {
		if all.Items[i].Labels["cert-manager.io/disable-validation"] == "true" {
			names = append(names, all.Items[i].Name)
		}
	}
	if len(names) > 0 {
		p.warn(topicUse, "objects in these namespaces are validated from now on, in spite of the label cert-manager.io/disable-validation: "+some(names))
	}
	return nil
}

// older reports whether a version can be read and is older than another.
func older(is, than string) bool {
	v, err := version.ParseGeneric(is)
	return err == nil && v.LessThan(version.MustParseGeneric(than))
}
