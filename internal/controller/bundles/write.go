package bundles

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/trusttarget"
)

// writesAtOnce is how many targets of a Bundle are written at the same time.
const writesAtOnce = 8

// write brings the targets of a Bundle up to date, and takes its keys out of objects that are
// no longer targets. One that fails does not stop the others.
func (r *reconciler) write(ctx context.Context, b *trustmanager.Bundle, set *truststore.Set, targets []target) outcome {
	pem := set.PEM()
	states := map[string]state{} // by kind
	due := slices.DeleteFunc(targets, func(t target) bool {
		if t.template == nil {
			return t.stored.DeletionTimestamp != nil || t.stored.Annotations[keysAnnotation] == "" || !metav1.IsControlledBy(t.stored, b)
		}
		if states[t.kind].hash == "" {
			states[t.kind] = stateOf(b, t.template, pem)
		}
		return states[t.kind].isOf(t.stored, b)
	})
	if len(due) == 0 {
		r.forget(b.Name)
		return r.synced(b, false)
	}
	stores, err := r.encode(b, set, pem)
	if err != nil {
		return notWritten(due, []error{err})
	}
	errs, text := make([]error, len(due)), string(pem)
	var group errgroup.Group
	group.SetLimit(writesAtOnce)
	for i, t := range due {
		group.Go(func() error {
			object := trusttarget.Target{
				Kind: t.kind, NamespacedName: t.NamespacedName, Owner: *metav1.NewControllerRef(b, trustmanager.GroupVersion.WithKind(trustmanager.Kind)),
				Labels: map[string]string{}, Annotations: map[string]string{},
			}
			if t.template == nil {
				object.UID, object.Labels[trustmanager.BundleLabel] = t.stored.UID, b.Name
				errs[i] = r.writer.Empty(ctx, object)
				return nil
			}
			maps.Copy(object.Labels, t.template.Metadata.Labels)
			maps.Copy(object.Annotations, t.template.Metadata.Annotations)
			object.Labels[trustmanager.BundleLabel], object.Annotations[trustmanager.HashAnnotation] = b.Name, states[t.kind].hash
			object.Text, object.Binary = map[string]string{t.template.Key: text}, stores
			errs[i] = r.writer.Apply(ctx, object)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	written := slices.Contains(errs, nil)
	var failed []target
	for i, t := range due {
		if errs[i] != nil && !isGone(errs[i]) {
			failed = append(failed, t)
		}
	}
	if len(failed) == 0 {
		return r.synced(b, written)
	}
	return notWritten(failed, slices.DeleteFunc(errs, func(err error) bool { return err == nil || isGone(err) }))
}

// isGone reports whether a write has failed because its namespace is being deleted.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// notWritten describes targets that could not be written, by the first one.
func notWritten(failed []target, errs []error) outcome {
	message := fmt.Sprintf("Failed to sync bundle %s to namespace %q: %v", failed[0].kind, failed[0].Namespace, errs[0])
	if len(failed) > 1 {
		message += fmt.Sprintf(" (and %d more)", len(failed)-1)
	}
	o := outcome{reason: "Sync" + failed[0].kind + "TargetFailed", message: eventtext.Line(message), again: refusedPause}
	// A write that is refused once is refused again.
	if i := slices.IndexFunc(errs, func(err error) bool { return !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) }); i >= 0 {
		o.err = errs[i]
	}
	return o
}

// state is the state of a target that is up to date.
type state struct {
	// hash is the hash of its content, and former that of trust-manager up to v0.24; empty
	// if that cannot tell whether a target is up to date.
	hash, former string
	// keys are the keys that the controller owns, sorted, with commas between them.
	keys string
}

func stateOf(b *trustmanager.Bundle, template *trustmanager.TargetTemplate, pem []byte) state {
	keys, s := []string{template.Key}, state{}
	if formats := b.Spec.Target.AdditionalFormats; formats != nil && formats.JKS != nil {
		keys = append(keys, formats.JKS.Key)
	}
	if formats := b.Spec.Target.AdditionalFormats; formats != nil && formats.PKCS12 != nil {
		keys = append(keys, formats.PKCS12.Key)
	}
	slices.Sort(keys)
	s.keys = strings.Join(keys, ",")
	s.hash, s.former = hashes(pem, b.Spec.Target.AdditionalFormats, template.Metadata)
	// It does not change with the profile of a keystore.
	synced := meta.FindStatusCondition(b.Status.Conditions, trustmanager.ConditionSynced)
	if synced == nil || synced.Status != metav1.ConditionTrue || synced.ObservedGeneration != b.Generation {
		s.former = s.hash
	}
	return s
}

// isOf reports whether a stored target of a Bundle has the state. Keystores are not compared:
// each encoding of one differs.
func (s state) isOf(stored *metav1.PartialObjectMetadata, b *trustmanager.Bundle) bool {
	if stored == nil || !metav1.IsControlledBy(stored, b) {
		return false
	}
	hash := stored.Annotations[trustmanager.HashAnnotation]
	return (hash == s.hash || hash == s.former) && stored.Annotations[keysAnnotation] == s.keys
}

// keystores are the keystores of a Bundle by their keys.
type keystores struct {
	of     string // the Bundle, its generation and the hash of its content
	binary map[string][]byte
}

// encode returns the keystores of a Bundle, and remembers them until forget is called: they
// are encoded once, and a target that is written again, because the cache does not show the
// first write yet, gets the same bytes.
func (r *reconciler) encode(b *trustmanager.Bundle, set *truststore.Set, pem []byte) (stores map[string][]byte, err error) {
	formats := b.Spec.Target.AdditionalFormats
	if formats == nil {
		return nil, nil
	}
	hash, _ := hashes(pem, formats, trustmanager.TargetMetadata{})
	of := fmt.Sprintf("%s %d %s", b.UID, b.Generation, hash)
	r.mu.Lock()
	known := r.encoded[b.Name]
	r.mu.Unlock()
	if known.of == of {
		return known.binary, nil
	}
	stores = map[string][]byte{}
	if jks := formats.JKS; jks != nil {
		if stores[jks.Key], err = keystorefile.RootsJKS(set.Certificates(), jks.Password); err != nil {
			return nil, err
		}
	}
	if p12 := formats.PKCS12; p12 != nil {
		if stores[p12.Key], err = keystorefile.RootsPKCS12(set.Certificates(), cmv1.PKCS12Profile(p12.Profile), passwordOf(p12)); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.encoded[b.Name] = keystores{of, stores}
	return stores, nil
}

// forget forgets the keystores of a Bundle.
func (r *reconciler) forget(bundle string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.encoded, bundle)
}
