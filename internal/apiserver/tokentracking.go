package apiserver

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
)

// The ConfigMap with the day since when Secrets are labelled with the last use
// of their tokens: a cleaner must not treat Secrets without a label before that
// day as unused.
const (
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackingKey  = "since"
)

// trackTokens creates that ConfigMap, or adds today to one without a day.
// Several servers may call it at the same time.
func trackTokens(ctx context.Context, client kubernetes.Interface, now time.Time) error {
	configMaps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	since := map[string]string{trackingKey: now.UTC().Format(serviceaccount.DateFormat)}
	stored, err := configMaps.Get(ctx, trackingName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: trackingName}, Data: since}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
	case err == nil:
		if _, malformed := time.Parse(serviceaccount.DateFormat, stored.Data[trackingKey]); malformed != nil {
			stored.Data = since
			_, err = configMaps.Update(ctx, stored, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		return fmt.Errorf("keeping ConfigMap %s: %w", trackingName, err)
	}
	return nil
}
