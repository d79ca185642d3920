package adopt

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/api/served"
	"github.com/certplane/certplane/internal/client/cli/check"
)

// fieldOwner is the manager of the fields that a move writes. It is that of kubectl apply
// --server-side, so that applying the manifests again also removes fields.
const fieldOwner = "kubectl"

// state is what a move must know after the program is gone. From step 1 on it is in a ConfigMap of
// certplane's namespace. It contains nothing secret.
type state struct {
	Parts []Part `json:"parts"`
	// Instance is the label of the program's objects, Release its release of Helm, and Keeper
	// the program that puts its objects back.
	Instance, Release, Keeper string
	// Configuration is the one with which certplane takes over; Former is the one before, nil
	// if certplane was not installed.
	Configuration, Former map[string]any
	// Bindings are the copied bindings. Webhooks are the deleted webhook configurations.
	Bindings, Webhooks []*unstructured.Unstructured
	// Accepted are the findings that the user knows of.
	Accepted []string
	Before   Before
	// Taken is the last step that was taken.
	Taken int
}

func (m *mover) stateOf(ctx context.Context, p *Plan) (*state, error) {
	first := p.Parts[0].found
	s := &state{
		Parts: p.Parts, Instance: first.Labels[instanceLabel], Release: first.Annotations["meta.helm.sh/release-name"], Keeper: m.keeper(first),
		Configuration: p.Configuration, Before: p.before,
	}
	s.Bindings = p.bindings
	former, err := m.present(ctx)
	if former["controllers"] != nil {
		s.Former = former
	}
	for _, c := range p.Checks {
		if c.Result == check.Failed {
			s.Accepted = append(s.Accepted, c.Text)
		}
	}
	return s, err
}

func (m *mover) configMap() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "certplane-adopt-" + m.Name}}
}

// load returns the state of a move that has begun; nil if none has.
func (m *mover) load(ctx context.Context) (*state, error) {
	stored, s := m.configMap(), &state{}
	if found, err := m.exists(ctx, stored.Namespace, stored.Name, stored); err != nil || !found {
		return nil, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(stored.BinaryData["state"]))
	if err == nil {
		err = json.NewDecoder(unpacked).Decode(s)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the state of the move in ConfigMap %s: %w", nameOf(stored), err)
	}
	return s, nil
}

func (m *mover) save(ctx context.Context, s *state) error {
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	err := errors.Join(json.NewEncoder(packer).Encode(s), packer.Close())
	stored := m.configMap()
	stored.BinaryData = map[string][]byte{"state": packed.Bytes()}
	if err == nil {
		if err = m.api.Update(ctx, stored); apierrors.IsNotFound(err) {
			err = m.api.Create(ctx, stored)
		}
	}
	if err != nil {
		return fmt.Errorf("writing the state of the move to ConfigMap %s: %w", nameOf(stored), err)
	}
	return nil
}

func asUnstructured(o runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	delete(content, "status")
	return &unstructured.Unstructured{Object: content}, nil
}

// objects returns the objects that install certplane with a configuration; the first one of the
// others is the namespace.
func (m *mover) objects(cfg map[string]any) (definitions, others []*unstructured.Unstructured, err error) {
	text, err := yaml.Marshal(cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	made, err := m.Manifests(text)
	if err != nil {
		return nil, nil, fmt.Errorf("making the manifests: %w", err)
	}
	for _, o := range made {
		encoded, err := asUnstructured(o)
		switch {
		case err != nil:
			return nil, nil, err
		case encoded.GetKind() == definitionKind.Kind:
			definitions = append(definitions, encoded)
		default:
			others = append(others, encoded)
		}
	}
	return definitions, others, nil
}

// apply applies objects by server-side apply, by force: the program owns the definitions.
func (m *mover) apply(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		if err := m.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(o.DeepCopy()), client.ForceOwnership, client.FieldOwner(fieldOwner)); err != nil {
			return fmt.Errorf("applying %s %s: %w", o.GetKind(), nameOf(o), err)
		}
	}
	return nil
}

func (m *mover) remove(ctx context.Context, objects ...*unstructured.Unstructured) error {
	for _, o := range objects {
		err := m.api.Delete(ctx, o.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !apierrors.IsNotFound(err) && !served.IsMissing(err) {
			return fmt.Errorf("deleting %s %s: %w", o.GetKind(), nameOf(o), err)
		}
	}
	return nil
}

// Back takes the steps back: certplane's webhook for the objects goes first, then its controllers,
// which release the leases; then the program runs again.
func Back(ctx context.Context, cfg Config) error {
	r, err := cfg.connect()
	if err != nil {
		return err
	}
	m := &mover{r}
	s, err := m.load(ctx)
	if err == nil && s == nil {
		err = fmt.Errorf("no move of %s has begun in this cluster: there is no ConfigMap %s", m.Name, nameOf(m.configMap()))
	}
	if err != nil {
		return err
	}
	for _, part := range s.Parts {
		if found, err := m.exists(ctx, part.Namespace, part.Deployment, part.object(deploymentKind)); err != nil {
			return err
		} else if !found {
			return fmt.Errorf("the Deployment %s/%s is gone: install %s again with its webhook; it waits, because certplane holds its leases. Then repeat this command", part.Namespace, part.Deployment, m.Name)
		}
	}
	_, surplus, err := m.objects(s.Configuration)
	var former []*unstructured.Unstructured
	if s.Former != nil && err == nil {
		_, former, err = m.objects(s.Former)
	}
	if err != nil {
		return err
	}
	if err := m.ask("This stops the controllers of certplane that replace %s, and starts %s again. Go on?", m.Name, m.Name); err != nil {
		return err
	}
	surplus = slices.DeleteFunc(append(surplus, s.Bindings...), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Namespace" || slices.ContainsFunc(former, func(f *unstructured.Unstructured) bool {
			return f.GroupVersionKind() == o.GroupVersionKind() && nameOf(f) == nameOf(o)
		})
	})
	hooks, others := split(surplus)
	if err := m.unplug(ctx, hooks...); err != nil {
		return err
	}
	isPods := func(o *unstructured.Unstructured) bool { return o.GetKind() == deploymentKind.Kind }
	if at := slices.IndexFunc(others, isPods); at >= 0 { // its pods release the leases
		if err := m.remove(ctx, others[at]); err != nil {
			return err
		}
	}
	if err := m.apply(ctx, former...); err != nil {
		return err
	}
	for _, part := range s.Parts {
		if err := m.scale(ctx, part, max(1, part.Replicas)); err != nil {
			return err
		}
	}
	if err := m.until(ctx, m.Name+" holds its leases", func() (bool, error) { return m.lead(ctx, s, false) }); err != nil {
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
	if err := m.remove(ctx, others...); err != nil {
		return err
	}
	fmt.Fprintf(m.Out, "%s works again\n", m.Name)
	return client.IgnoreNotFound(m.api.Delete(ctx, m.configMap()))
}

// Sleep waits, and returns early with an error if ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
