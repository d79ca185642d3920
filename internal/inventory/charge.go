package inventory

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// Charge notes in a record the tenant that it counts for, as CLASS/NAME. An empty payer
// leaves the record uncharged.
func Charge(record *inventoryv1alpha1.IssuedCertificate, payer string) {
	if payer == "" {
		return
	}
	if record.Annotations == nil {
		record.Annotations = map[string]string{}
	}
	record.Annotations[inventoryv1alpha1.ChargedAnnotation] = payer
	label := strings.NewReplacer(":", "_", "/", "_").Replace(strings.Replace(payer, "/", ".", 1))
	if len(validation.IsValidLabelValue(label)) > 0 {
		return
	}
	if record.Labels == nil {
		record.Labels = map[string]string{}
	}
	record.Labels[inventoryv1alpha1.ChargedLabel] = label
}

func payerOf(record *inventoryv1alpha1.IssuedCertificate) string {
	return record.Annotations[inventoryv1alpha1.ChargedAnnotation]
}

// Payers returns the number of bytes that each tenant is charged for in a value of the
// inventory, which is a record or a pack. Uncharged bytes are not included.
func Payers(value []byte) map[string]int64 {
	if len(value) == 0 {
		return nil
	}
	if value[0] != packVersion {
		var record struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if json.Unmarshal(value, &record) != nil || record.Metadata.Annotations[inventoryv1alpha1.ChargedAnnotation] == "" {
			return nil
		}
		return map[string]int64{record.Metadata.Annotations[inventoryv1alpha1.ChargedAnnotation]: int64(len(value))}
	}
	bill := billOf(value)
	if bill.Bytes <= 0 {
		return nil
	}
	paid := map[string]int64{}
	for payer, bytes := range bill.Payers {
		paid[payer] = int64(float64(len(value)) * float64(bytes) / float64(bill.Bytes))
	}
	return paid
}

// bill lists the tenants that are charged for the records of a pack. It follows the records,
// where versions that do not support it do not read:
//
//	the bill, as JSON
//	its length, 4 bytes
//	billMark
type bill struct {
	// Bytes is the size of all records before compression, and Payers the part of it that
	// each payer is charged for.
	Bytes  int64            `json:"bytes"`
	Payers map[string]int64 `json:"payers,omitempty"`
	// Newest is when the latest of the records was issued, in seconds since 1970.
	Newest int64 `json:"newest,omitempty"`
	// Omits is true if a record leaves out names. Then the filter has their digests.
	Omits bool `json:"omits,omitempty"`
	// Terms is the version of the terms in the filter.
	Terms int `json:"terms,omitempty"`
	// Denials is how many records are of denials.
	Denials int `json:"denials,omitempty"`
}

const billMark = "\x00bill\x001\xff"

func (b *bill) add(record *inventoryv1alpha1.IssuedCertificate, size int) {
	b.Bytes += int64(size)
	b.Newest = max(b.Newest, record.CreationTimestamp.Unix())
	b.Terms = termsNow
	if record.Denial != nil {
		b.Denials++
	}
	b.Omits = b.Omits || record.Certificate.OmittedNames > 0
	if payer := payerOf(record); payer != "" {
		if b.Payers == nil {
			b.Payers = map[string]int64{}
		}
		b.Payers[payer] += int64(size)
	}
}

func (b *bill) encode() ([]byte, error) {
	data, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(data, uint32(len(data))), billMark...), nil //nolint:gosec // it is small
}

// billSize returns the length of the bill of a pack, with its mark; 0 if it has none.
func billSize(pack []byte) int {
	rest, ok := bytes.CutSuffix(pack, []byte(billMark))
	if !ok || len(rest) < 4 {
		return 0
	}
	size := binary.BigEndian.Uint32(rest[len(rest)-4:])
	if uint64(size) > uint64(len(rest)-4) {
		return 0
	}
	return int(size) + 4 + len(billMark)
}

// billOf returns the bill of a pack; an empty one if it has none.
func billOf(pack []byte) bill {
	var b bill
	size := billSize(pack)
	if size == 0 || json.Unmarshal(pack[len(pack)-size:len(pack)-4-len(billMark)], &b) != nil {
		return bill{}
	}
	return b
}
