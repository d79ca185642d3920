package adopt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// program is a program to replace.
type program struct {
	name string
	// set is the set of certplane's controllers in its place.
	set string
	// groups are the API groups of its definitions.
	groups []string
	// webhook is the name of its webhooks.
	webhook string
	// webhookFirst means that the controller serves the webhook: its configuration then goes
	// before the controller stops, because calls would fail afterwards.
	webhookFirst bool
	// oldest is the oldest version whose objects certplane takes over as they are.
	oldest string
	parts  []part
	// valid and invalid are objects in YAML that its webhook accepts and refuses.
	valid, invalid string
	// values are files with values for its chart, by their names.
	values map[string]string
}

// part is a Deployment of a program.
type part struct {
	name string
	// image is the last element of its image's name.
	image string
	// component is the value of the label app.kubernetes.io/component, for images that have
	// been renamed. Empty if the program does not have the label.
	component string
	// lease is the name of the lease with which it elects a leader; empty if it serves the
	// webhook alone.
	lease string
}

// programs are the programs that can be replaced.
var programs = []program{
	{
		name: "cert-manager", set: "@cert-manager", groups: []string{"cert-manager.io", "acme.cert-manager.io"}, webhook: "webhook.cert-manager.io", oldest: "1.13.0",
		parts: []part{
			{"controller", "cert-manager-controller", "controller", "cert-manager-controller"},
			{"cainjector", "cert-manager-cainjector", "cainjector", "cert-manager-cainjector-leader-election"},
			{"webhook", "cert-manager-webhook", "webhook", ""},
		},
		valid:   "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {generateName: certplane-adopt-}, spec: {secretName: certplane-adopt, dnsNames: [a.example], issuerRef: {name: none}}}",
		invalid: "{apiVersion: cert-manager.io/v1, kind: Certificate, metadata: {generateName: certplane-adopt-}, spec: {secretName: certplane-adopt, issuerRef: {name: none}}}",
		values: map[string]string{
			"values-4.yaml": "# The controllers stop.\nreplicaCount: 0\ncainjector:\n  replicaCount: 0\nstartupapicheck:\n  enabled: false\n",
			"values-7.yaml": "# The definitions stay when the release is uninstalled.\ncrds:\n  keep: true\n",
		},
	},
	{
		name: "trust-manager", set: "@trust-manager", groups: []string{"trust.cert-manager.io"}, webhook: "trust.cert-manager.io", webhookFirst: true, oldest: "0.7.0",
		parts:   []part{{"controller", "trust-manager", "", "trust-manager-leader-election"}},
		valid:   "{apiVersion: trust.cert-manager.io/v1alpha1, kind: Bundle, metadata: {generateName: certplane-adopt-}, spec: {sources: [{configMap: {name: none, key: ca.crt}}], target: {configMap: {key: ca.crt}}}}",
		invalid: "{apiVersion: trust.cert-manager.io/v1alpha1, kind: Bundle, metadata: {generateName: certplane-adopt-}, spec: {sources: [], target: {configMap: {key: ca.crt}}}}",
		values:  map[string]string{"values-4.yaml": "replicaCount: 0\n", "values-7.yaml": "crds:\n  keep: true\n"},
	},
}

// Part is a Deployment of the program to replace.
type Part struct {
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
	Deployment string `json:"deployment"`
	Replicas   int32  `json:"replicas"`
	Version    string `json:"version"`
	Account    string `json:"serviceAccount"`
	// Lease is the lease that it holds while it works, NAMESPACE/NAME; empty if it elects no
	// leader.
	Lease string `json:"lease,omitempty"`

	found     *appsv1.Deployment
	container *corev1.Container
	// given are its settings by the names of flags, and which of them are fields of its
	// configuration file.
	given map[string]given
}

// part returns the Deployment of a part; nil if there is none.
func (p *Plan) part(name string) *Part {
	if at := slices.IndexFunc(p.Parts, func(part Part) bool { return part.Name == name }); at >= 0 {
		return &p.Parts[at]
	}
	return nil
}

func (of part) container(d *appsv1.Deployment) *corev1.Container {
	containers := d.Spec.Template.Spec.Containers
	labels := d.Spec.Template.Labels
	byLabel := of.component != "" && strings.HasSuffix(labels["app.kubernetes.io/instance"], "cert-manager") && labels["app.kubernetes.io/component"] == of.component
	for i := range containers {
		image, _, _ := strings.Cut(containers[i].Image, "@")
		image, _, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
		if image == of.image || byLabel && (containers[i].Name == of.image || len(containers) == 1) {
			return &containers[i]
		}
	}
	return nil
}

const topicVersion = "Version"

// findParts finds the Deployments of the program.
func (m *mover) findParts(ctx context.Context, p *Plan) error {
	all := &appsv1.DeploymentList{}
	if err := m.api.List(ctx, all); err != nil {
		return fmt.Errorf("looking for %s: listing Deployments: %w", m.name, err)
	}
	for _, of := range m.parts {
		for i := range all.Items {
			d := &all.Items[i]
			container := of.container(d)
			if container == nil {
				continue
			}
			if other := p.part(of.name); other != nil {
				p.fail(topicVersion, fmt.Sprintf("%s/%s and %s/%s are both the %s of %s: one for the whole cluster can be replaced", other.Namespace, other.Deployment, d.Namespace, d.Name, of.name, m.name))
				continue
			}
			tag := container.Image[strings.LastIndexAny(container.Image, ":/")+1:]
			p.Parts = append(p.Parts, Part{
				Name: of.name, Namespace: d.Namespace, Deployment: d.Name, Replicas: ptr.Deref(d.Spec.Replicas, 1), Lease: of.lease,
				Version: strings.TrimPrefix(cmp.Or(d.Labels["app.kubernetes.io/version"], tag), "v"),
				Account: cmp.Or(d.Spec.Template.Spec.ServiceAccountName, "default"), found: d, container: container,
			})
		}
	}
	if len(p.Parts) == 0 {
		return fmt.Errorf("%w: no Deployment runs its image %s", errNotFound(m.name), m.parts[0].image)
	}
	return m.findGiven(ctx, p)
}

// errNotFound is the error for a program that is not in the cluster.
type errNotFound string

// Error implements error.
func (e errNotFound) Error() string { return string(e) + " is not in this cluster" }

// installed checks the versions, and by which tool the program was installed.
func (m *mover) installed(ctx context.Context, p *Plan) error {
	for _, part := range p.Parts {
		where := fmt.Sprintf("%s of %s, Deployment %s/%s", part.Name, m.name, part.Namespace, part.Deployment)
		switch is, err := version.ParseGeneric(part.Version); {
		case err != nil:
			p.warn(topicVersion, fmt.Sprintf("%s: the version %q cannot be read", where, part.Version), "Make sure that it is "+m.oldest+" or later.")
		case is.LessThan(version.MustParseGeneric(m.oldest)):
			p.fail(topicVersion, fmt.Sprintf("%s has the version %s", where, part.Version), fmt.Sprintf("Upgrade it to %s or later first: older versions have other definitions and finalizers.", m.oldest))
		default:
			p.ok(topicVersion, "%s has the version %s", where, part.Version)
		}
	}
	if tool, by := toolOf(p.Parts[0].found); tool != "" {
		p.warn(topicVersion, fmt.Sprintf("%s keeps these objects (%s)", tool, by), "Suspend it before step 4, and remove them from its source: it puts back what a step takes away.")
	}
	return m.findRelease(ctx, p)
}

// tools are the marks of programs that put back deleted objects.
var tools = map[string]string{
	"argocd.argoproj.io/tracking-id": "Argo CD", "argocd.argoproj.io/instance": "Argo CD",
	"kustomize.toolkit.fluxcd.io/name": "Flux", "helm.toolkit.fluxcd.io/name": "Flux", "olm.owner": "the Operator Lifecycle Manager",
}

func toolOf(o metav1.Object) (tool, by string) {
	for _, marks := range []map[string]string{o.GetAnnotations(), o.GetLabels()} {
		for _, key := range slices.Sorted(maps.Keys(marks)) {
			if tool := tools[key]; tool != "" {
				return tool, key + ": " + marks[key]
			}
		}
	}
	return "", ""
}

// exists reports whether an object exists.
func (m *mover) exists(ctx context.Context, namespace, name string, into client.Object) (bool, error) {
	err := m.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	return err == nil, client.IgnoreNotFound(err)
}
