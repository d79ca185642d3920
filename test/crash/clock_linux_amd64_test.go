package crash

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

// clockOffset is what this process adds to the wall clock, in seconds.
var clockOffset atomic.Int64

// clockMoved reports that the kernel's function has been replaced.
var clockMoved bool

// setClock moves the wall clock of this process only. The kernel's function
// that programs call for the time, which is mapped into each process (vdso(7)),
// is replaced by one that adds clockOffset. Timers and durations use the
// monotonic clock, which does not move, as when an administrator sets the clock
// of a machine.
func setClock(offset time.Duration) error {
	clockOffset.Store(int64(offset / time.Second))
	if clockMoved {
		return nil
	}
	clockMoved = true
	address, err := findClock()
	if err != nil {
		return fmt.Errorf("finding the clock: %w", err)
	}
	memory, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer memory.Close()
	_, err = memory.WriteAt(movedClock(), address)
	return err
}

// movedClock is clock_gettime(clock, *timespec) in machine code.
func movedClock() []byte {
	code := []byte{
		0xb8, 228, 0, 0, 0, // mov eax, SYS_clock_gettime
		0x0f, 0x05, // syscall
		0x85, 0xff, // test edi, edi
		0x75, 0x10, // jnz to ret: another clock than CLOCK_REALTIME
		0x49, 0xbb, // mov r11, &clockOffset
	}
	code = binary.LittleEndian.AppendUint64(code, uint64(uintptr(unsafe.Pointer(&clockOffset))))
	return append(code,
		0x4d, 0x8b, 0x1b, // mov r11, [r11]
		0x4c, 0x01, 0x1e, // add [rsi], r11
		0xc3, // ret
	)
}

// findClock returns the address of the kernel's function.
func findClock() (int64, error) {
	from, image, err := kernelImage()
	if err != nil {
		return 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, err
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" && symbol.Size >= uint64(len(movedClock())) {
			return from + int64(symbol.Value), nil
		}
	}
	return 0, errNotHere
}

// kernelImage returns the kernel's functions in this process, and their
// address.
func kernelImage() (from int64, image []byte, err error) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		if !strings.HasSuffix(strings.TrimSpace(line), "[vdso]") {
			continue
		}
		var end int64
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &end); err != nil {
			return 0, nil, err
		}
		memory, err := os.Open("/proc/self/mem")
		if err != nil {
			return 0, nil, err
		}
		defer memory.Close()
		image = make([]byte, end-from)
		_, err = memory.ReadAt(image, from)
		return from, image, err
	}
	return 0, nil, errNotHere
}
