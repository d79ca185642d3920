package adopt

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/check"
)

// fieldOwner is the manager of the fields that a move writes. It is that of kubectl apply
// --server-side, so that applying the manifests again also removes fields.
const fieldOwner = "kubectl"

// state is what a move must know after the program is gone. It is kept in a ConfigMap of
// certplane's namespace from step 2 on, and contains nothing secret.
type state struct {
	Parts []Part `json:"parts"`
	// Instance is the label app.kubernetes.io/instance of the program; Release is its release
	// of Helm; Tool is the program that keeps its objects.
	Instance string `json:"instance,omitempty"`
	Release  string `json:"release,omitempty"`
	Tool     string `json:"tool,omitempty"`
	// Configuration is the one with which certplane takes over; Former is the one before, nil
	// if certplane was not installed.
	Configuration map[string]any `json:"configuration"`
	Former        map[string]any `json:"former,omitempty"`
	// Bindings are the copied bindings. Webhooks are the deleted webhook configurations.
	Bindings []*unstructured.Unstructured `json:"bindings,omitempty"`
	Webhooks []*unstructured.Unstructured `json:"webhooks,omitempty"`
	// Accepted are the findings that the user knows of.
	Accepted []string `json:"accepted,omitempty"`
	Before   Before   `json:"before"`
	// Compared and Verified are set when steps 3 and 5 have been taken.
	Compared bool `json:"compared"`
	Verified bool `json:"verified"`

	saved bool
}

// keeper returns a text about the tool that keeps the program's objects.
func (s *state) keeper() string {
	if s.Tool == "" {
		return ""
	}
	return " (" + s.Tool + " keeps them)"
}

func (m *mover) stateOf(ctx context.Context, p *Plan) (*state, error) {
	s := &state{Parts: p.Parts, Instance: p.Parts[0].found.Labels["app.kubernetes.io/instance"], Release: p.Parts[0].found.Annotations["meta.helm.sh/release-name"], Configuration: p.Configuration, Before: p.before}
	s.Tool, _ = toolOf(p.Parts[0].found)
	former, err := m.present(ctx)
	if err != nil {
		return nil, err
	}
	if _, installed := former["controllers"]; installed {
		s.Former = former
	}
	for _, c := range p.Checks {
		if c.Result == check.Failed {
			s.Accepted = append(s.Accepted, c.Text)
		}
	}
	for _, b := range m.copies(p) {
		o, err := asUnstructured(b)
		if err != nil {
			return nil, err
		}
		s.Bindings = append(s.Bindings, o)
	}
	return s, nil
}

func (m *mover) stateKey() client.ObjectKey {
	return client.ObjectKey{Namespace: m.namespace, Name: "certplane-adopt-" + m.name}
}

// load returns the state of a move that has begun; nil if none has.
func (m *mover) load(ctx context.Context) (*state, error) {
	stored, s := &corev1.ConfigMap{}, &state{saved: true}
	if found, err := m.exists(ctx, m.namespace, m.stateKey().Name, stored); err != nil || !found {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(stored.BinaryData["state"]))
	if err == nil {
		err = json.NewDecoder(unpacked).Decode(s)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the move in ConfigMap %s: %w", m.stateKey(), err)
	}
	return s, nil
}

func (m *mover) save(ctx context.Context, s *state) error {
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	if err := errors.Join(json.NewEncoder(packer).Encode(s), packer.Close()); err != nil {
		return fmt.Errorf("encoding the state of the move: %w", err)
	}
	stored := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: m.stateKey().Name}, BinaryData: map[string][]byte{"state": packed.Bytes()}}
	err := m.api.Update(ctx, stored)
	if apierrors.IsNotFound(err) {
		err = m.api.Create(ctx, stored)
	}
	if err != nil {
		return fmt.Errorf("writing the state of the move to ConfigMap %s: %w", m.stateKey(), err)
	}
	s.saved = true
	return nil
}

func asUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return &unstructured.Unstructured{Object: content}, nil
}

// object returns an object in YAML.
func object(text string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	return o, nil
}

// objects returns the objects that install certplane with a configuration.
func (m *mover) objects(cfg map[string]any) (all []*unstructured.Unstructured, err error) {
	text, err := yaml.Marshal(cfg)
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	made, err := m.Manifests(text)
	if err != nil {
		return nil, fmt.Errorf("making the manifests: %w", err)
	}
	for _, o := range made {
		encoded, err := asUnstructured(o)
		if err != nil {
			return nil, err
		}
		all = append(all, encoded)
	}
	return all, nil
}

// apply applies objects by server-side apply, by force: the program owns the definitions.
func (m *mover) apply(ctx context.Context, objects []*unstructured.Unstructured, options ...client.ApplyOption) error {
	for _, o := range objects {
		err := m.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), append(options, client.ForceOwnership, client.FieldOwner(fieldOwner))...)
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), nameOf(o), err)
		}
	}
	return nil
}

// areApplied reports whether applying the objects would change nothing.
func (m *mover) areApplied(ctx context.Context, objects []*unstructured.Unstructured) (bool, error) {
	for _, o := range objects {
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(o.GroupVersionKind())
		found, err := m.exists(ctx, o.GetNamespace(), o.GetName(), stored)
		if served.IsMissing(err) || err == nil && !found {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("reading %s %s: %w", o.GetKind(), nameOf(o), err)
		}
		applied := o.DeepCopy()
		if err := m.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.DryRunAll, client.ForceOwnership, client.FieldOwner(fieldOwner)); err != nil {
			return false, fmt.Errorf("trying to apply %s %s: %w", o.GetKind(), nameOf(o), err)
		}
		for _, each := range []*unstructured.Unstructured{stored, applied} {
			each.SetManagedFields(nil)
			each.SetResourceVersion("")
			each.SetGeneration(0)
		}
		if !equality.Semantic.DeepEqual(stored.Object, applied.Object) {
			return false, nil
		}
	}
	return true, nil
}

// remove deletes objects that exist.
func (m *mover) remove(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		err := m.api.Delete(ctx, o.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !apierrors.IsNotFound(err) && !served.IsMissing(err) {
			return fmt.Errorf("deleting %s %s: %w", o.GetKind(), nameOf(o), err)
		}
	}
	return nil
}

// installedKinds are the kinds of objects that the program installs, besides its definitions.
var installedKinds = []schema.GroupKind{
	{Group: "apps", Kind: "Deployment"}, {Kind: "Service"}, {Kind: "ServiceAccount"}, {Kind: "ConfigMap"}, {Group: "policy", Kind: "PodDisruptionBudget"}, {Group: "networking.k8s.io", Kind: "NetworkPolicy"},
	{Group: "monitoring.coreos.com", Kind: "ServiceMonitor"}, {Group: "monitoring.coreos.com", Kind: "PodMonitor"},
	{Group: rbacv1.GroupName, Kind: "RoleBinding"}, {Group: rbacv1.GroupName, Kind: "Role"}, {Group: rbacv1.GroupName, Kind: "ClusterRoleBinding"}, {Group: rbacv1.GroupName, Kind: "ClusterRole"},
}

// leftovers returns what the program has installed and is still there, except for definitions:
// objects with the labels of its installation, and the release of Helm.
func (m *mover) leftovers(ctx context.Context, s *state) (left []*unstructured.Unstructured, err error) {
	ignored := &Plan{Report: check.NewReport()}
	for _, kind := range installedKinds {
		found, err := m.list(ctx, ignored, "", kind)
		if err != nil {
			return nil, err
		}
		for i := range found {
			isPart := slices.ContainsFunc(s.Parts, func(p Part) bool {
				return kind.Kind == "Deployment" && found[i].GetNamespace() == p.Namespace && found[i].GetName() == p.Deployment
			})
			if isPart || m.owns(s.Instance, &found[i]) && found[i].GetDeletionTimestamp() == nil {
				left = append(left, &found[i])
			}
		}
	}
	if ignored.Count[check.NotChecked] > 0 {
		return nil, errors.New("you may not list all objects that the program has installed: run this command as an administrator of the cluster")
	}
	if s.Release == "" {
		return left, nil
	}
	releases := &metav1.PartialObjectMetadataList{}
	releases.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("SecretList"))
	if err := m.api.List(ctx, releases, client.InNamespace(s.Parts[0].Namespace), client.MatchingLabels{"owner": "helm", "name": s.Release}); err != nil {
		return nil, fmt.Errorf("listing the releases of Helm: %w", err)
	}
	for i := range releases.Items {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		o.SetNamespace(releases.Items[i].Namespace)
		o.SetName(releases.Items[i].Name)
		left = append(left, o)
	}
	return left, nil
}

// Back takes the steps back: certplane's webhook for the objects goes first, then its
// controllers, which release the leases; then the program runs again.
func Back(ctx context.Context, cfg Config) error {
	m, err := cfg.connect()
	if err != nil {
		return err
	}
	s, err := m.load(ctx)
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("no move of %s has begun in this cluster: there is no ConfigMap %s", m.name, m.stateKey())
	}
	for _, part := range s.Parts {
		if d, err := m.deployment(ctx, part); err != nil {
			return err
		} else if d == nil {
			return fmt.Errorf("the Deployment %s/%s of %s is gone: install %s again with its webhook; it waits, because certplane holds its leases. Then repeat this command", part.Namespace, part.Deployment, m.name, m.name)
		}
	}
	ours, err := m.rest(s)
	if err != nil {
		return err
	}
	var former []*unstructured.Unstructured
	if s.Former != nil {
		if former, err = m.objects(s.Former); err != nil {
			return err
		}
	}
	if yes, err := m.Ask(fmt.Sprintf("This stops the controllers of certplane that replace %s, and starts %s again. Go on?", m.name, m.name)); err != nil || !yes {
		return cmpErr(err, errors.New("nothing has changed"))
	}
	extra := slices.DeleteFunc(ours, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" || slices.ContainsFunc(former, func(f *unstructured.Unstructured) bool {
			return f.GroupVersionKind() == o.GroupVersionKind() && nameOf(f) == nameOf(o)
		})
	})
	first := func(o *unstructured.Unstructured) int { // webhooks, then pods, then the rights with which they release leases
		return slices.Index([]bool{strings.HasSuffix(o.GetKind(), "WebhookConfiguration"), o.GetKind() == "Deployment", true}, true)
	}
	slices.SortStableFunc(extra, func(a, b *unstructured.Unstructured) int { return first(a) - first(b) })
	pods := slices.IndexFunc(extra, func(o *unstructured.Unstructured) bool { return first(o) > 1 })
	if err := m.remove(ctx, extra[:max(0, pods)]); err != nil {
		return err
	}
	former = slices.DeleteFunc(former, func(o *unstructured.Unstructured) bool { return o.GetKind() == definitionKind.Kind })
	if err := m.apply(ctx, former); err != nil {
		return err
	}
	m.say("Stopped the controllers of certplane")
	for _, part := range s.Parts {
		d, err := m.deployment(ctx, part)
		if err != nil {
			return err
		}
		if d.Spec.Replicas != nil && *d.Spec.Replicas == 0 {
			if err := m.scale(ctx, part, max(1, part.Replicas)); err != nil {
				return err
			}
		}
	}
	if err := m.until(ctx, m.name+" holds its leases", func() (bool, error) { return m.lead(ctx, s, false) }); err != nil {
		return err
	}
	for _, o := range s.Webhooks {
		o.SetResourceVersion("")
		o.SetUID("")
		o.SetManagedFields(nil)
		if err := m.api.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("restoring %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	m.say("Started %s again", m.name)
	state := &unstructured.Unstructured{}
	state.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	state.SetNamespace(m.namespace)
	state.SetName(m.stateKey().Name)
	return m.remove(ctx, append(extra[max(0, pods):], state))
}
