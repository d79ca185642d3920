package acmeendpoints

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/worker"
)

// Reasons of the condition Ready of external keys, in addition to the reasons of endpoints.
const (
	reasonNoEndpoint      = "EndpointMissing"
	reasonRevoked         = "Revoked"
	reasonExpired         = "Expired"
	reasonUsedUp          = "UsedUp"
	reasonSecretForbidden = "SecretForbidden"
	reasonSecretInvalid   = "SecretInvalid"
)

// eventSecret is the reason of the Event about a created Secret.
const eventSecret = "SecretCreated"

const (
	keyBytes = 32
	// settled is how long after its last use the accounts of a key are counted: the server
	// records the use before it creates the account.
	settled = time.Minute
)

// reconcileKey writes the status of one external key, and creates its Secret.
func (r *reconciler) reconcileKey(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	k := &v1alpha1.AcmeExternalKey{}
	if err := r.cache.Get(ctx, key.NamespacedName, k); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if k.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	was := k.Status.DeepCopy()
	accounts, err := r.count(ctx, byKey, string(k.UID))
	if err != nil {
		return reconcile.Result{}, err
	}
	s := &k.Status
	s.ObservedGeneration, s.KID, s.Directory = k.Generation, k.Namespace+"."+k.Name, r.Server.directory(k.Spec.Endpoint)
	now, again := r.Clock.Now(), lookAgain
	switch quiet := s.LastUsed == nil || now.Sub(s.LastUsed.Time) >= settled; {
	case int32(accounts) > s.Accounts, quiet:
		s.Accounts = int32(accounts)
	case int32(accounts) != s.Accounts:
		again = settled
	}
	ready, err := r.readyKey(ctx, k)
	if err != nil {
		return reconcile.Result{}, err
	}
	ready.ObservedGeneration, ready.LastTransitionTime = k.Generation, metav1.NewTime(now)
	meta.SetStatusCondition(&s.Conditions, ready)
	if ready.Status != metav1.ConditionTrue {
		again = min(again, soonAfter(s.Conditions, now))
	}
	if expires := k.Spec.Expires; expires != nil && expires.After(now) {
		again = min(again, expires.Sub(now)+time.Second)
	}
	if apiequality.Semantic.DeepEqual(was, s) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return worker.Kept(again, r.Client.Status().Update(ctx, k, client.FieldOwner(Name)))
}

// readyKey returns the condition Ready: whether accounts can be created with a key.
func (r *reconciler) readyKey(ctx context.Context, k *v1alpha1.AcmeExternalKey) (metav1.Condition, error) {
	if _, errs := acmeorder.CompileKey(k); len(errs) > 0 {
		return notReady(reasonInvalid, errs.ToAggregate().Error()), nil
	}
	endpoint := &v1alpha1.AcmeEndpoint{}
	err := r.cache.Get(ctx, client.ObjectKey{Name: k.Spec.Endpoint}, endpoint, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return notReady(reasonNoEndpoint, "the AcmeEndpoint "+k.Spec.Endpoint+" does not exist"), nil
	case err != nil:
		return metav1.Condition{}, err
	}
	if r.Server.ExternalURL == "" {
		return notReady(reasonNotServed, "no ACME server is configured: set acmeServer in the configuration"), nil
	}
	switch spec, now := k.Spec, r.Clock.Now(); {
	case spec.Revoked:
		return notReady(reasonRevoked, "the key is revoked"), nil
	case spec.Expires != nil && !now.Before(spec.Expires.Time):
		return notReady(reasonExpired, "the key has expired"), nil
	case spec.MaxAccounts > 0 && k.Status.Accounts >= spec.MaxAccounts:
		return notReady(reasonUsedUp, fmt.Sprintf("all of its %d accounts have been created", spec.MaxAccounts)), nil
	}
	if why, err := r.keepSecret(ctx, k); err != nil || why != nil {
		return deref(why), err
	}
	why, err := r.mayActAs(ctx, v1alpha1.AcmeServiceAccount{Namespace: k.Namespace, Name: k.Spec.ServiceAccount})
	if err != nil || why != "" {
		return notReady(reasonTokenForbidden, why), err
	}
	return metav1.Condition{Type: v1alpha1.Ready, Status: metav1.ConditionTrue, Reason: reasonReady, Message: "accounts can be created with the key"}, nil
}

func deref(c *metav1.Condition) metav1.Condition {
	if c == nil {
		return metav1.Condition{}
	}
	return *c
}

// keepSecret creates the Secret of a key if it does not exist. It returns the condition of
// a key whose Secret cannot be used.
func (r *reconciler) keepSecret(ctx context.Context, k *v1alpha1.AcmeExternalKey) (*metav1.Condition, error) {
	name := client.ObjectKey{Namespace: k.Namespace, Name: k.Spec.Secret.Name}
	stored := &corev1.Secret{}
	err := r.Client.Get(ctx, name, stored)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return r.createSecret(ctx, k)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Secret %s: %w", name, err)
	}
	if text := string(stored.Data[k.Spec.Secret.Key]); !isKey(text) {
		c := notReady(reasonSecretInvalid, fmt.Sprintf("the entry %s of the Secret %s must be at least %d bytes as base64url text without padding", k.Spec.Secret.Key, name.Name, keyBytes))
		return &c, nil
	}
	return r.secretReadable(ctx, name)
}

func isKey(text string) bool {
	key, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(key) >= keyBytes
}

// createSecret creates the Secret. It never overwrites an existing key, which may be in
// use.
func (r *reconciler) createSecret(ctx context.Context, k *v1alpha1.AcmeExternalKey) (*metav1.Condition, error) {
	key := make([]byte, keyBytes)
	if _, err := io.ReadFull(r.Rand, key); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	key[0] &^= 0x80 // so that the text does not begin with "-", which certbot takes for an option
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.Namespace, Name: k.Spec.Secret.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AcmeExternalKey", Name: k.Name, UID: k.UID, Controller: new(true)}},
		},
		Data: map[string][]byte{
			k.Spec.Secret.Key: []byte(base64.RawURLEncoding.EncodeToString(key)),
			"kid":             []byte(k.Status.KID),
			"url":             []byte(k.Status.Directory),
		},
	}
	err := r.Client.Create(ctx, secret, client.FieldOwner(Name))
	switch {
	case err == nil:
		if r.Events != nil {
			r.Events.Eventf(k, nil, corev1.EventTypeNormal, eventSecret, "Create", "Created the Secret %s with a random key", secret.Name)
		}
	case apierrors.IsForbidden(err):
		c := notReady(reasonSecretForbidden, fmt.Sprintf("%s may not create the Secret %s: 'certplane acme allow' prints the Role that permits it", Name, secret.Name))
		return &c, nil
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("creating the Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return r.secretReadable(ctx, client.ObjectKeyFromObject(secret))
}

// secretReadable returns the condition of a key whose Secret the server may not read.
func (r *reconciler) secretReadable(ctx context.Context, name client.ObjectKey) (*metav1.Condition, error) {
	allowed, err := r.allows(ctx, r.Server.Reader, authorizationv1.ResourceAttributes{Verb: "get", Version: "v1", Resource: "secrets", Namespace: name.Namespace, Name: name.Name})
	if err != nil || allowed {
		return nil, err
	}
	c := notReady(reasonSecretForbidden, fmt.Sprintf("%s may not read the Secret %s: 'certplane acme allow' prints the Role that permits it", r.Server.Reader, name.Name))
	return &c, nil
}
