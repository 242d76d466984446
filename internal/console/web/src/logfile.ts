// How a log is sent to a tool.

// maxLog is the most bytes that the API accepts.
export const maxLog = 32 << 20

// words splits a list at spaces and commas.
export const words = (text: string): string[] => text.split(/[\s,]+/).filter(Boolean)

// readFields reads pairs such as "user=uid tenant=extra1".
export function readFields(text: string): Record<string, string> {
  const found: Record<string, string> = {}
  for (const word of words(text)) {
    const [name, field] = word.split(/=(.*)/s)
    if (!name || !field) throw new Error(`invalid field "${word}": write attribute=field, for example user=uid`)
    found[name] = field
  }
  return found
}

// packed compresses a file, unless it is small or compressed already.
export async function packed(file: File): Promise<Blob> {
  if (file.size < 1 << 20 || /\.(gz|zst)$/i.test(file.name)) return file
  return new Response(file.stream().pipeThrough(new CompressionStream('gzip'))).blob()
}

// logForm returns the body of a request with a log.
export async function logForm(options: object, file: File): Promise<FormData> {
  const log = await packed(file)
  if (log.size > maxLog) {
    const size = Math.ceil(log.size / (1 << 20))
    throw new Error(
      `${file.name} has ${size} MiB after compression; at most ${maxLog >> 20} are possible here. Use the command in a terminal.`,
    )
  }
  const form = new FormData()
  form.set('options', JSON.stringify(options))
  form.set('log', log, file.name)
  return form
}
