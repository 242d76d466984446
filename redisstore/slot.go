package redisstore

import (
	"encoding/base64"

	"github.com/penstock-io/penstock/storage"
)

// slotOf returns the Redis Cluster slot that holds everything of the subject: the CRC-16 (polynomial
// 0x1021) of the hash tag.
func slotOf(s storage.Subject) int {
	var tag [22]byte
	base64.RawURLEncoding.Encode(tag[:], s[:])
	return slotOfTag(tag[:])
}

func slotOfTag(tag []byte) int {
	crc := uint16(0)
	for _, b := range tag {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return int(crc) % slots
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()
