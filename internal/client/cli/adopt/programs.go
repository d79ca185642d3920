package adopt

import (
	"cmp"
	"context"
	_ "embed"
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
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/served"
)

//go:embed data.yaml
var dataFile []byte

// data is what data.yaml says of the programs that can be replaced. It must not be modified.
type data struct {
	Programs []program         `json:"programs"`
	Settings []row             `json:"settings"`
	OwnPods  []string          `json:"ownPods"`
	Chart    map[string]string `json:"chart"`
	Needs    []need            `json:"needs"`
	Keepers  map[string]string `json:"keepers"`
	Clouds   map[string]string `json:"clouds"`
	Policies []string          `json:"policies"`
}

// program is a program that can be replaced.
type program struct {
	Name string `json:"name"`
	// Set is the set of certplane's controllers in its place.
	Set string `json:"set"`
	// Groups are the API groups of its kinds, and Version is the version that is stored.
	Groups  []string `json:"groups"`
	Version string   `json:"version"`
	// Webhook is the name of its webhooks. WebhookFirst means that the controller serves them.
	Webhook      string `json:"webhook"`
	WebhookFirst bool   `json:"webhookFirst"`
	// Oldest is the oldest version whose objects certplane takes over as they are.
	Oldest string `json:"oldest"`
	// LeaseNamespace is the default namespace of its leases; empty for its own.
	LeaseNamespace string `json:"leaseNamespace"`
	Parts          []struct {
		Name, Image, Component, Lease string
	} `json:"parts"`
	// Valid and Invalid are objects that its webhook accepts and refuses.
	Valid   map[string]any `json:"valid"`
	Invalid map[string]any `json:"invalid"`
	// Uncovered are kinds that certplane does not serve.
	Uncovered []string `json:"uncovered"`
	// Values are values for its chart: to stop it, and to keep its definitions.
	Values map[string]any `json:"values"`
}

func readData() (data, error) {
	var d data
	if err := yaml.UnmarshalStrict(dataFile, &d); err != nil {
		return d, fmt.Errorf("reading data.yaml: %w", err) // a bug of ours
	}
	return d, nil
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
	given     map[string]Setting // by the names of flags
}

// part returns a part by its name; nil if there is none.
func (p *Plan) part(name string) *Part {
	if at := slices.IndexFunc(p.Parts, func(part Part) bool { return part.Name == name }); at >= 0 {
		return &p.Parts[at]
	}
	return nil
}

const topicVersion = "Version"

// findParts finds the Deployments of the program, by the names of their images or, for images
// that were renamed, by the labels of the chart.
func (m *reader) findParts(ctx context.Context, p *Plan) error {
	all := &appsv1.DeploymentList{}
	if err := m.api.List(ctx, all); err != nil && !served.IsMissing(err) {
		return fmt.Errorf("looking for %s: listing Deployments: %w", m.Name, err)
	}
	for _, of := range m.Parts {
		for i := range all.Items {
			d := &all.Items[i]
			pod := &d.Spec.Template
			byLabel := of.Component != "" && d.Labels["app.kubernetes.io/component"] == of.Component && m.owns(d)
			if controller := p.part("controller"); controller != nil {
				byLabel = byLabel && d.Labels[instanceLabel] == controller.found.Labels[instanceLabel]
			}
			at := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool {
				image, _, _ := strings.Cut(c.Image, "@")
				image, _, _ = strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
				return image == of.Image || byLabel && len(pod.Spec.Containers) == 1
			})
			if at < 0 {
				continue
			}
			if other := p.part(of.Name); other != nil {
				p.fail(topicVersion, fmt.Sprintf("%s/%s and %s are both the %s of %s: certplane replaces one that works in the whole cluster", other.Namespace, other.Deployment, nameOf(d), of.Name, m.Name))
				continue
			}
			container := &pod.Spec.Containers[at]
			_, tag, _ := strings.Cut(container.Image[strings.LastIndex(container.Image, "/")+1:], ":")
			p.Parts = append(p.Parts, Part{
				Name: of.Name, Namespace: d.Namespace, Deployment: d.Name, Replicas: ptr.Deref(d.Spec.Replicas, 1), Lease: of.Lease,
				Version: strings.TrimPrefix(cmp.Or(d.Labels["app.kubernetes.io/version"], tag), "v"),
				Account: cmp.Or(pod.Spec.ServiceAccountName, "default"), found: d, container: container,
			})
		}
	}
	if p.part("controller") == nil {
		return fmt.Errorf("%s is not in this cluster: no Deployment runs its image %s", m.Name, m.Parts[0].Image)
	}
	for i := range p.Parts {
		if err := m.findGiven(ctx, p, &p.Parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// older reports whether a version can be read and is older than another.
func older(is, than string) bool {
	v, err := version.ParseGeneric(is)
	limit, errLimit := version.ParseGeneric(than)
	return err == nil && errLimit == nil && v.LessThan(limit)
}

// versions checks the versions, and by which tool the program was installed.
func (m *reader) versions(ctx context.Context, p *Plan) error {
	for _, part := range p.Parts {
		where := fmt.Sprintf("%s of %s, Deployment %s/%s, version %q", part.Name, m.Name, part.Namespace, part.Deployment, part.Version)
		switch {
		case older(part.Version, m.Oldest):
			p.fail(topicVersion, where+" is too old", fmt.Sprintf("Upgrade it to %s or later first: older versions have other definitions and finalizers.", m.Oldest))
		case !older("0.0.0", part.Version):
			p.warn(topicVersion, where+" cannot be compared", fmt.Sprintf("Make sure that it is %s or later.", m.Oldest))
		default:
			p.ok(topicVersion, "%s", where)
		}
	}
	if keeper := m.keeper(p.Parts[0].found); keeper != "" {
		p.warn(topicVersion, keeper+" keeps these objects", "Suspend it before step 4, and remove them from its source: it puts back what a step takes away.")
	}
	return m.readRelease(ctx, p)
}

// keeper returns the name of a program that puts back an object if it is deleted; empty if no
// mark shows one.
func (m *reader) keeper(o metav1.Object) string {
	for _, marks := range []map[string]string{o.GetAnnotations(), o.GetLabels()} {
		for _, key := range slices.Sorted(maps.Keys(marks)) {
			if keeper := m.Keepers[key]; keeper != "" {
				return keeper
			}
		}
	}
	return ""
}

// exists reads an object, and reports whether it exists.
func (m *reader) exists(ctx context.Context, namespace, name string, into client.Object) (bool, error) {
	err := m.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, into)
	return err == nil, client.IgnoreNotFound(err)
}
