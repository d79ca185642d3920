package events

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/roundtrip"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// Every event of one group can be represented in the other group.
func TestRoundTrip(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	roundtrip.RoundTripProtobufTestForScheme(t, scheme, func(serializer.CodecFactory) []any { return nil })
}
