package podsync

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/projection"
	"github.com/certplane/certplane/internal/agent/requests"
)

// certificateKind is the kind of certificates in the status.
const certificateKind = "podCertificate"

// certificate serves the current credential, regardless of the state of the next one.
func (v *podSync) certificate(ctx context.Context, s *volumeState, source *corev1.PodCertificateProjection) sourceResult {
	key := certificateKey(source)
	before, revoked := v.revoked(ctx, s.Certificates[key], source.SignerName)
	if revoked != nil {
		s.Certificates[key] = before
	}
	wake, err := time.Time{}, errUnregistered
	if v.pod != nil {
		wake, err = v.pursue(ctx, s, key, source)
	}
	record, now := s.Certificates[key], v.k.Clock.Now()
	if err == nil {
		err = failureOf(record)
	}
	if c := record.Current; revoked != nil && c != nil && bytes.Equal(c.Chain, before.Current.Chain) {
		err = errors.Join(revoked, err)
	}
	g := newResult(certificateKind, source.SignerName, nil, err)
	g.wake, g.told.State = wake, string(record.StateAt(now))
	if c := record.Current; c != nil {
		g.parts, g.missing, g.told.Ready = projection.Certificate(source, c.Key, c.Chain), false, true
		g.told.NotAfter, g.told.RefreshAt = &c.NotAfter, &c.RefreshAt
	} else {
		g.missing, g.told.Ready = true, false
		if err == nil {
			var wake time.Time
			g.told.Error, g.told.Waiting, wake = unanswered(record, source.SignerName, v.manifest.Namespace, now)
			v.wakeBy(wake)
		}
	}
	return g
}

// failureOf returns the reason why a newer credential is missing.
func failureOf(record credential.Record) error {
	f := record.Failure
	switch {
	case f == nil:
		return nil
	case f.Kind == credential.Denied, f.Kind == credential.Failed:
		return fmt.Errorf("%s: %s: %s", f.Kind, f.Reason, f.Message)
	}
	if f.Message == errAway.Error() {
		return errAway
	}
	return errors.New(f.Message)
}

// pursue takes the next step for a certificate, and returns when the following
// one is due. Its decision is on disk before it is carried out.
func (v *podSync) pursue(ctx context.Context, s *volumeState, key string, source *corev1.PodCertificateProjection) (time.Time, error) {
	k, record := v.k, s.Certificates[key]
	if v.retry {
		record = record.Retry(k.Clock.Now())
	}
	seen, err := v.see(ctx, record)
	if err != nil {
		return time.Time{}, fmt.Errorf("looking for request %s: %w", record.Pending.Name, err)
	}
	purpose := v.purpose(source)
	decision := credential.Decide(record, purpose, seen, k.Clock.Now(), k.Jitter)
	for _, event := range decision.Events {
		k.Events.Event(v.pod, corev1.EventTypeWarning, event.Reason, event.Message)
	}
	k.Metrics.decided(source.SignerName, record, decision.Record)
	record = decision.Record
	if decision.Action == credential.CreateRequest {
		request, err := credential.NewRequest(source.KeyType, purpose)
		if err != nil {
			return time.Time{}, err
		}
		record = record.WithRequest(request)
	}
	if err := s.put(key, record); err != nil || decision.Action == credential.Wait {
		return decision.Wake, err
	}
	record = v.send(ctx, record, source)
	return sentWake(record), s.put(key, record)
}

func (s *volumeState) put(key string, record credential.Record) error {
	s.Certificates[key] = record
	return s.save()
}

// sentWake returns when to check a request after an attempt to send it.
func sentWake(record credential.Record) time.Time {
	if record.Failure != nil && (record.Pending == nil || record.Pending.SentAt.IsZero()) {
		return record.Failure.RetryAt
	}
	return record.Pending.AbandonAt
}

func (v *podSync) see(ctx context.Context, record credential.Record) (credential.Seen, error) {
	if record.Pending == nil {
		return credential.Seen{}, nil
	}
	return v.k.requests.See(ctx, v.pod.Namespace, record.Pending)
}

// send sends the pending request of a record.
func (v *podSync) send(ctx context.Context, record credential.Record, source *corev1.PodCertificateProjection) credential.Record {
	k := v.k
	err := v.sendOnce(ctx, record.Pending, source)
	k.Metrics.sent(source.SignerName, err)
	if err == nil {
		return record.Sent(k.Clock.Now(), k.Jitter)
	}
	// The Node or the Pod may have been replaced.
	k.Node.Forget()
	never := requests.IsPermanent(err)
	if text, waiting := explain(err); waiting {
		err = errors.New(text)
	}
	return record.Unsent(err, never, k.Clock.Now(), k.Jitter)
}

func (v *podSync) sendOnce(ctx context.Context, pending *credential.Request, source *corev1.PodCertificateProjection) error {
	k := v.k
	account, err := k.Client.CoreV1().ServiceAccounts(v.pod.Namespace).Get(ctx, v.pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the service account %s/%s does not exist", v.pod.Namespace, v.pod.Spec.ServiceAccountName)
	}
	if err != nil {
		return fmt.Errorf("looking for the pod's service account: %w", err)
	}
	node, err := k.Node.Current(ctx)
	if err != nil {
		return err
	}
	return k.requests.Send(ctx, pending, source, requests.Subject{Pod: v.pod, Node: node, AccountUID: account.UID})
}

// purpose returns what a certificate of the source is for: its subject, and
// everything that a signer could put into it.
func (v *podSync) purpose(source *corev1.PodCertificateProjection) credential.Purpose {
	content, err := json.Marshal([]any{
		source.SignerName, source.KeyType, source.MaxExpirationSeconds, source.UserAnnotations, v.pod.Spec.ServiceAccountName,
	})
	if err != nil { // strings and numbers only
		panic(err)
	}
	digest := sha256.Sum256(content)
	return credential.Purpose{PodUID: v.pod.UID, Source: hex.EncodeToString(digest[:8])}
}
