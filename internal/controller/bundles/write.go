package bundles

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/trusttarget"
	"github.com/certplane/certplane/internal/process/worker"
)

// writesAtOnce is how many targets of a Bundle are written at the same time.
const writesAtOnce = 8

// cacheDelay is how long a target is not written again while the cache shows its former version.
const cacheDelay = 5 * time.Second

// unseen is a write of a hash and keys to a target that had a version, "" if it did not exist. Events
// of the first targets start a pass right after a long one, which would write the last ones twice.
type unseen struct {
	version, hash, keys string
	until               time.Time
}

// write brings the targets of a Bundle up to date, and takes its keys out of objects that are
// no longer targets. One that fails does not stop the others.
func (r *reconciler) write(ctx context.Context, b *trustmanager.Bundle, set *truststore.Set, all []target) outcome {
	pem := string(set.PEM())
	states := map[string]state{} // by kind
	last, _ := r.unseen.Load(b.Name)
	writes, _ := last.(map[string]unseen)
	waits := map[string]unseen{}
	due := slices.DeleteFunc(all, func(t target) bool {
		if t.template == nil {
			return t.stored.DeletionTimestamp != nil || t.stored.Annotations[keysAnnotation] == "" || !metav1.IsControlledBy(t.stored, b)
		}
		if states[t.kind].hash == "" {
			states[t.kind] = stateOf(b, t.template, pem)
		}
		if states[t.kind].isOf(t.stored, b) {
			return true
		}
		write := writes[t.kind+t.String()]
		if write.version != t.version() || write.hash != states[t.kind].hash || write.keys != states[t.kind].keys || !r.Clock.Now().Before(write.until) {
			return false
		}
		waits[t.kind+t.String()] = write
		return true
	})
	o := r.synced(b)
	switch {
	case len(waits) > 0:
		o.again = cacheDelay
	case len(due) == 0:
		r.forget(b.Name)
	}
	if len(due) == 0 {
		return o
	}
	stores, err := r.encode(b, set, pem)
	if err != nil {
		return notWritten(due, []error{err})
	}
	errs := make([]error, len(due))
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
			object.Text, object.Binary = map[string]string{t.template.Key: pem}, stores
			errs[i] = r.writer.Apply(ctx, object)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	var failed []target
	var why []error
	for i, t := range due {
		if errs[i] == nil {
			o.written = true
			waits[t.kind+t.String()] = unseen{t.version(), states[t.kind].hash, states[t.kind].keys, r.Clock.Now().Add(cacheDelay)}
		}
		// A namespace that is being deleted needs no target.
		if err := errs[i]; err != nil && !worker.IsTooLate(err) {
			failed, why = append(failed, t), append(why, err)
		}
	}
	r.unseen.Store(b.Name, waits)
	if len(failed) > 0 {
		return notWritten(failed, why)
	}
	return o
}

// notWritten describes targets that could not be written, by the first one.
func notWritten(failed []target, errs []error) outcome {
	o := outcome{reason: "SyncConfigMapTargetFailed", again: worker.RefusedPause}
	if failed[0].kind == trusttarget.Secret {
		o.reason = "SyncSecretTargetFailed"
	}
	o.message = fmt.Sprintf("Failed to sync bundle %s to namespace %q: %v", failed[0].kind, failed[0].Namespace, errs[0])
	if len(failed) > 1 {
		o.message += fmt.Sprintf(" (and %d more)", len(failed)-1)
	}
	for _, err := range errs {
		if !worker.IsRefused(err) {
			o.err = err
		}
	}
	return o
}

// state is the state of a target that is up to date.
type state struct {
	// hash is the hash of its content; former is one that it may have instead.
	hash, former string
	// keys are the keys that the controller owns, sorted, with commas between them.
	keys string
}

func stateOf(b *trustmanager.Bundle, template *trustmanager.TargetTemplate, pem string) (s state) {
	formats, keys := ptr.Deref(b.Spec.Target.AdditionalFormats, trustmanager.AdditionalFormats{}), []string{template.Key}
	if formats.JKS != nil {
		keys = append(keys, formats.JKS.Key)
	}
	if formats.PKCS12 != nil {
		keys = append(keys, formats.PKCS12.Key)
	}
	slices.Sort(keys)
	s.keys = strings.Join(keys, ",")
	s.hash, s.former = trustmanager.TargetHash(pem, formats, template.Metadata)
	// The former hash does not depend on the profile.
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

// keystores are the keystores of a Bundle by their keys. of is its identity, generation and
// content.
type keystores struct {
	of     string
	binary map[string][]byte
}

// encode returns the keystores of a Bundle, and remembers them while targets are written: they
// are encoded once, and a target that is written again, because the cache does not show the
// first write yet, gets the same bytes.
func (r *reconciler) encode(b *trustmanager.Bundle, set *truststore.Set, pem string) (map[string][]byte, error) {
	formats := ptr.Deref(b.Spec.Target.AdditionalFormats, trustmanager.AdditionalFormats{})
	of := fmt.Sprint(b.UID, b.Generation, sha256.Sum256([]byte(pem)))
	if known, ok := r.encoded.Load(b.Name); ok && known.(keystores).of == of {
		return known.(keystores).binary, nil
	}
	binary := map[string][]byte{}
	var err error
	if jks := formats.JKS; jks != nil {
		binary[jks.Key], err = keystorefile.RootsJKS(set.Certificates(), jks.Password)
	}
	if p12 := formats.PKCS12; p12 != nil && err == nil {
		binary[p12.Key], err = keystorefile.RootsPKCS12(set.Certificates(), cmv1.PKCS12Profile(p12.Profile), p12.PasswordText())
	}
	if err == nil {
		r.encoded.Store(b.Name, keystores{of, binary})
	}
	return binary, err
}
